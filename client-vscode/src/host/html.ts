// The page of a webview. No vscode here, so that tests serve exactly this page.
//
// Invariant: nothing but our own files and our own script runs or loads: no inline script or style, no remote address.

export interface Assets {
  nonce: string;
  cspSource: string;
  script: string;
  styles: string[];
  title: string;
  body: string;
}

export function page(assets: Assets): string {
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${assets.nonce}'`,
    `style-src ${assets.cspSource}`,
    `font-src ${assets.cspSource}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const links = assets.styles.map((href) => `<link rel="stylesheet" href="${href}">`).join("\n");
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${assets.title}</title>
${links}
</head>
<body class="${assets.body}">
<main id="root"></main>
<script nonce="${assets.nonce}" src="${assets.script}"></script>
</body>
</html>`;
}
