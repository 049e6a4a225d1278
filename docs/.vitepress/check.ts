import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SiteConfig } from 'vitepress'

type Page = { ids: Set<string>; links: string[]; requests: string[] }

// check fails the build if a page is not in the sidebar, if a link or an anchor of a built page
// leads nowhere, or if a page loads something from another site.
export function check(config: SiteConfig) {
  const base = config.site.base
  const pages = read(config.outDir)
  const problems = missing(config)
  for (const [name, page] of pages) {
    problems.push(...page.requests.map((url) => `${name} loads ${url}`))
    for (const link of page.links) {
      const target = new URL(link, `http://site${base}${name}`)
      if (target.host !== 'site') continue
      const found = pages.get(target.pathname.slice(base.length).replace(/(^|\/)$/, '$1index.html'))
      if (!target.pathname.startsWith(base) || !found) problems.push(`${name}: ${link}: no such page`)
      else if (target.hash && !found.ids.has(decodeURIComponent(target.hash.slice(1)))) problems.push(`${name}: ${link}: no such anchor`)
    }
  }
  if (problems.length > 0) throw new Error(`the site has ${problems.length} problems:\n  ${problems.join('\n  ')}`)
  console.log(`checked ${[...pages.values()].reduce((n, page) => n + page.links.length, 0)} links of ${pages.size} pages`)
}

function read(folder: string): Map<string, Page> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.html'))
  return new Map(names.map((name) => [name, parse(readFileSync(join(folder, name), 'utf8'))]))
}

function parse(html: string): Page {
  const all = (pattern: RegExp) => [...html.matchAll(pattern)].map((match) => match[1].replaceAll('&amp;', '&'))
  return {
    ids: new Set(all(/ id="([^"]*)"/g)),
    links: all(/<a [^>]*?href="([^"]*)"/g),
    requests: all(/(?:<link [^>]*?href|\ssrc)="((?:https?:)?\/\/[^"]*)"/g),
  }
}

// missing are the pages that the sidebar does not have.
function missing(config: SiteConfig): string[] {
  const listed = new Set<string>(['index'])
  for (const group of config.site.themeConfig.sidebar)
    for (const item of group.items) listed.add(item.link.slice(1).replace(/\/$/, '/index'))
  return config.pages
    .map((name) => (config.rewrites.map[name] ?? name).replace(/\.md$/, ''))
    .filter((name) => !listed.has(name))
    .map((name) => `${name}.md is not in .vitepress/sidebar.ts`)
}
