import { existsSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path/posix'
import { fileURLToPath } from 'node:url'
import type { MarkdownRenderer } from 'vitepress'

export const repository = 'https://github.com/fluxgate/fluxgate'

const root = fileURLToPath(new URL('../..', import.meta.url))

// The pages are written for GitHub. These rules make the same text work on the site.
export function markdown(md: MarkdownRenderer) {
  const open = md.renderer.rules.link_open!
  md.renderer.rules.link_open = (tokens, i, options, env, self) => {
    tokens[i].attrSet('href', href(tokens[i].attrGet('href')!, env.relativePath))
    return open(tokens, i, options, env, self)
  }
  const fence = md.renderer.rules.fence!
  md.renderer.rules.fence = (tokens, i, options, env, self) =>
    tokens[i].info.trim() === 'mermaid'
      ? `<Mermaid source="${encodeURIComponent(tokens[i].content)}" />`
      : fence(tokens, i, options, env, self)
  // Wide tables scroll inside the page, and long names in them may break.
  md.renderer.rules.table_open = (tokens, i, options, env) => ((env.table = true), '<div class="table"><table>')
  md.renderer.rules.table_close = (tokens, i, options, env) => ((env.table = false), '</table></div>')
  const code = md.renderer.rules.code_inline!
  md.renderer.rules.code_inline = (tokens, i, options, env, self) => {
    const html = code(tokens, i, options, env, self)
    return env.table ? html.replace(/>[^<]+</, (text) => text.replace(/.{8,}?[._/:](?=\w)/g, '$&<wbr>')) : html
  }
}

// href is where a link of a page leads on the site: files that are not pages are on GitHub.
function href(link: string, page: string): string {
  if (/^([a-z]+:|#|\/)/.test(link)) return link
  const [path, hash] = link.split('#')
  const target = join('docs', dirname(page), path)
  if (target.startsWith('docs/') && path.endsWith('.md')) return link.replace(/(^|\/)README\.md/, '$1index.md')
  const kind = existsSync(root + target) && statSync(root + target).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${target}${hash ? `#${hash}` : ''}`
}

// anchor names headings as GitHub does.
export function anchor(heading: string): string {
  return heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')
}
