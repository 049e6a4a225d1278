import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import MiniSearch from 'minisearch'
import type { SiteConfig } from 'vitepress'

// questions are what users search for, and the page that has to be found first.
const questions: Record<string, string> = {
  'test with a fake clock': '/start/go',
  'custom 429 body': '/middleware',
  'what happens when Redis dies': '/faq',
  'how much memory': '/redis',
  'from Java FluxGate': '/migration',
  'Envoy AI Gateway': '/envoy',
  'which limits apply to me': '/admin',
  'why 403': '/faq',
  'is it exact': '/faq',
  'who is limited now': '/console',
  'try a change first': '/simulate',
  'metrics in my Go service': '/start/go',
}

// ask fails the build if the search of the site does not find the page of a question first. The
// options are those of VitePress.
export async function ask(config: SiteConfig) {
  const chunks = join(config.outDir, 'assets', 'chunks')
  const index = readdirSync(chunks).find((name) => name.startsWith('@localSearchIndexroot'))
  if (!index) throw new Error('the site has no search index')
  const { default: json } = await import(pathToFileURL(join(chunks, index)).href)
  const search = MiniSearch.loadJSON(json, {
    fields: ['title', 'titles', 'text'],
    storeFields: ['title', 'titles'],
    searchOptions: { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } },
  })
  const wrong = Object.entries(questions).flatMap(([question, page]) => {
    const found = search.search(question).map((result) => String(result.id).slice(config.site.base.length - 1))
    if (found[0]?.split('#')[0].replace(/\.html$/, '') === page) return []
    return [`${question}: ${found.slice(0, 3).join(', ')}; want ${page}`]
  })
  if (wrong.length > 0) throw new Error(`the search does not find\n  ${wrong.join('\n  ')}`)
}
