// Code and tables that scroll sideways can be reached by keyboard; the others are no stops.
function markScrollable() {
  for (const box of document.querySelectorAll(".highlight pre, .table-wrapper, div.output pre")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}
addEventListener("load", markScrollable);
addEventListener("resize", markScrollable);
