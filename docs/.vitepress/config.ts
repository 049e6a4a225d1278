import { defineConfig } from 'vitepress'
import { check } from './check'
import { ask } from './questions'
import { anchor, markdown, repository } from './markdown'
import { sidebar } from './sidebar'

const base = process.env.DOCS_BASE || '/'

export default defineConfig({
  title: 'FluxGate',
  description: 'Rate limits for APIs that stay correct across many servers',
  lang: 'en',
  base,
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: base + 'logo.svg' }]],
  // GitHub shows README.md for a folder, a web server index.html.
  rewrites: { ':folder/README.md': ':folder/index.md' },
  markdown: {
    anchor: { slugify: anchor },
    config: markdown,
    languageAlias: { acl: 'ini', caddyfile: 'nginx', haproxy: 'nginx' }, // Shiki does not have these
    image: { lazyLoading: true },
    linkify: false, // .md is a top-level domain
  },
  themeConfig: {
    logo: '/logo.svg',
    nav: [
      { text: 'Get started', link: '/getting-started' },
      { text: 'Configuration', link: '/configuration' },
      { text: 'Changelog', link: `${repository}/blob/main/CHANGELOG.md` },
    ],
    sidebar,
    outline: [2, 3],
    search: {
      provider: 'local',
      // Users do not look for the reasons of the past.
      options: { _render: (source, env, md) => (/^(decisions|dependencies)/.test(env.relativePath) ? '' : md.render(source, env)) },
    },
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/edit/main/docs/:path`, text: 'Edit this page' },
    footer: { message: 'MIT licence' },
  },
  async buildEnd(config) {
    check(config)
    await ask(config)
  },
  vite: { build: { chunkSizeWarningLimit: 4000 } }, // the search index and Mermaid
})
