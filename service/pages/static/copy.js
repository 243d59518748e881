// Copy buttons beside code.
const copyText = async (text) => {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
};

document.querySelectorAll("[data-copy]").forEach((button) => {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await copyText(button.parentElement.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
});

document.querySelectorAll("[data-copy-field]").forEach((button) => {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await copyText(document.getElementById(button.dataset.copyField).value);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
});

document.querySelectorAll("[data-copy-address]").forEach((button) => {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await copyText(window.location.href);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy link"; }, 1500);
  });
});
