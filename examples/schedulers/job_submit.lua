--[[ A job_submit plugin for Slurm: jobs get a useful number of nodes, or are refused.

Install as job_submit.lua beside slurm.conf, with JobSubmitPlugins=lua. A job with
--comment=stagecut:ID, the id of a capacity curve, is given as many of its nodes as the best plan
really uses; a size on which nothing fits is refused. The answer is read from a stored curve. ]]

local service = os.getenv("STAGECUT_URL") or "http://127.0.0.1:8000"

local function read(path)
   local pipe = io.popen("curl -s -m 2 '" .. service .. path .. "'")
   local text = pipe:read("*a")
   pipe:close()
   return text
end

function slurm_job_submit(job_desc, part_list, submit_uid)
   local curve = (job_desc.comment or ""):match("stagecut:([%w_-]+)")
   if curve == nil or job_desc.min_nodes == slurm.NO_VAL then
      return slurm.SUCCESS
   end
   local asked = job_desc.max_nodes
   if asked == nil or asked == slurm.NO_VAL then
      asked = job_desc.min_nodes
   end
   local point = read("/v1/capacity/" .. curve .. "?nodes=" .. string.format("%d", asked))
   local uses = point:match('"uses_nodes":(%d+)')
   if uses ~= nil then
      job_desc.min_nodes = tonumber(uses)
      job_desc.max_nodes = tonumber(uses)
      slurm.log_user("stagecut: %s nodes are used best", uses)
   elseif point:match('"feasible":false') then
      slurm.log_user("stagecut: nothing fits on %d nodes", asked)
      return slurm.ERROR
   end
   return slurm.SUCCESS -- a job is not held up because the service is away
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   return slurm.SUCCESS
end

return slurm.SUCCESS
