// A model's Markdown as nodes.
//
// Invariant: text becomes markup in two steps that each would do alone: markdown-it takes no HTML, and DOMPurify lets
// only plain formatting through. No image, no style, no address that the browser could follow by itself: a link keeps
// its target in `data-href` and is opened by the extension after a check.

import createDOMPurify from "dompurify";
import hljs from "highlight.js/lib/common";
import MarkdownIt from "markdown-it";

const purify = createDOMPurify(window);
const TAGS = "a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i li ol p pre s span strong sub sup table tbody td th thead tr ul".split(" ");

const markdown = new MarkdownIt({ html: false, linkify: true, breaks: false, highlight });
markdown.renderer.rules.image = (tokens, index) => {
  const token = tokens[index];
  const address = markdown.utils.escapeHtml(String(token?.attrGet("src") ?? ""));
  return `<a href="${address}">[image: ${markdown.utils.escapeHtml(token?.content || "without a name")}]</a>`;
};

function highlight(code: string, language: string): string {
  if (!hljs.getLanguage(language) || code.length > 100_000) return "";
  return hljs.highlight(code, { language, ignoreIllegals: true }).value;
}

export function rendered(text: string): DocumentFragment {
  const fragment = purify.sanitize(markdown.render(text), {
    ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["class", "href", "start"], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true,
  });
  for (const link of fragment.querySelectorAll("a")) tame(link);
  for (const block of fragment.querySelectorAll("pre")) dress(block);
  for (const table of fragment.querySelectorAll("table")) wrap(table);
  return fragment;
}

function tame(link: HTMLAnchorElement): void {
  const target = link.getAttribute("href") ?? "";
  link.removeAttribute("href");
  link.dataset.href = target;
  link.title = target;
  link.tabIndex = 0;
  link.setAttribute("role", "link");
}

function dress(block: HTMLPreElement): void {
  const code = block.querySelector("code");
  const language = /language-([\w+#-]+)/.exec(code?.className ?? "")?.[1] ?? "";
  const frame = document.createElement("div");
  frame.className = "code";
  const head = document.createElement("div");
  head.className = "code-head";
  const name = document.createElement("span");
  name.textContent = language;
  const copy = document.createElement("button");
  copy.className = "icon";
  copy.dataset.copy = "code";
  copy.title = "Copy";
  copy.setAttribute("aria-label", "Copy code");
  copy.append(Object.assign(document.createElement("span"), { className: "codicon codicon-copy" }));
  head.append(name, copy);
  block.tabIndex = 0;
  block.replaceWith(frame);
  frame.append(head, block);
}

function wrap(table: HTMLTableElement): void {
  const frame = document.createElement("div");
  frame.className = "table";
  frame.tabIndex = 0;
  table.replaceWith(frame);
  frame.append(table);
}
