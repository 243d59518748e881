"""An admission webhook for Kubernetes: jobs ask for a useful number of nodes, or are refused.

A batch/v1 Job (as Kueue queues it) or a Volcano Job with the annotation stagecut/capacity, the id
of a capacity curve, is given as many pods as the best plan within its size really uses, and the
annotation stagecut/plan with that plan's id. A size on which nothing fits is refused with the
smallest that does. The answer comes from a stored curve in milliseconds; nothing is solved.

python examples/schedulers/admission_webhook.py http://stagecut:8000 8443 cert.pem key.pem
"""

import base64
import json
import ssl
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CURVE, PLAN = "stagecut/capacity", "stagecut/plan"


def reviewed(body, ask):
    """The AdmissionReview that answers one; ``ask(path)`` reads from the service."""
    request = body["request"]
    job = request["object"]
    answer = {"uid": request["uid"], "allowed": True}
    curve = job["metadata"].get("annotations", {}).get(CURVE)
    if curve:
        paths = _size_paths(job)
        asked = max(_read(job, path) or 1 for path in paths)
        point = ask(f"/v1/capacity/{curve}?nodes={asked}")
        if not point.get("feasible"):
            least = ask(f"/v1/capacity/{curve}")["curves"][0]["smallest_feasible"]
            message = f"Nothing fits on {asked} nodes; the smallest size is {least}."
            answer |= {"allowed": False, "status": {"code": 422, "message": message}}
        else:
            patch = [{"op": "add", "path": path, "value": point["uses_nodes"]} for path in paths]
            key = PLAN.replace("/", "~1")
            patch.append(
                {"op": "add", "path": f"/metadata/annotations/{key}", "value": point["plan_id"]}
            )
            encoded = base64.b64encode(json.dumps(patch).encode()).decode()
            answer |= {"patchType": "JSONPatch", "patch": encoded}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}


def _size_paths(job):
    """Where a job says how many pods it has, one a node."""
    if job["apiVersion"].startswith("batch.volcano.sh/"):
        return ["/spec/tasks/0/replicas", "/spec/minAvailable"]
    return ["/spec/parallelism", "/spec/completions"]


def _read(job, path):
    for part in path.strip("/").split("/"):
        job = job[int(part)] if isinstance(job, list) else job.get(part)
        if job is None:
            return None
    return job


def serve(service, port, certificate=None, key=None):
    """A server that reviews what the API server posts; Kubernetes wants the certificate."""

    def ask(path):
        with urllib.request.urlopen(service + path, timeout=2) as response:
            return json.load(response)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                answer = reviewed(body, ask)
            except urllib.error.URLError:  # a job is not held up because a service is away
                allowed = {"uid": body["request"]["uid"], "allowed": True}
                answer = {**body, "request": None, "response": allowed}
            text = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("", port), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    return server


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), *sys.argv[3:5]).serve_forever()
