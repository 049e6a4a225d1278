import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { DefaultTheme } from 'vitepress'

type Item = DefaultTheme.SidebarItem

const docs = fileURLToPath(new URL('..', import.meta.url))

// One line for each page of docs/; check.ts fails the build if one is missing.
export const sidebar: Item[] = [
  group('Start', {
    'Getting started': '/getting-started',
    'Go service': '/start/go',
    'Platform team': '/start/platform',
    'AI team': '/start/ai',
    Install: '/install',
    'Verify a release': '/verify',
    Kubernetes: '/kubernetes',
    'Docker Compose': '/compose',
  }),
  group('Concepts', {
    Architecture: '/architecture',
    Rules: '/rules',
    'Kinds of limits': '/limits',
  }),
  group('Guides', {
    'HTTP and gRPC middleware': '/middleware',
    'nginx, HAProxy, Caddy, Traefik': '/proxies',
    'Envoy, Envoy Gateway, Istio': '/envoy',
    'Clients in Go and TypeScript': '/clients',
    'Budgets for language models': '/llm',
    'Limits for one customer': '/customers',
    Administration: '/admin',
    Console: '/console',
    'Warnings of rule sets': '/rule-warnings',
    'Simulate a change': '/simulate',
  }),
  group('Reference', {
    Configuration: '/configuration',
    'HTTP API': '/api',
    'Admin API': '/admin-api',
    'Command line': '/cli',
    Metrics: '/metrics',
    'Variables of envoyproxy/ratelimit': '/envoy-variables',
    Compatibility: '/compatibility',
    Dependencies: '/dependencies',
  }),
  group('Operate', {
    Operations: '/operations',
    'Upgrade and go back': '/upgrade',
    Runbooks: '/runbooks',
    Redis: '/redis',
    Scaling: '/scaling',
    'Simulated fleets': '/scaling/fleets',
    Reliability: '/reliability',
    'Injected faults': '/benchmarks/faults',
    Security: '/security',
  }),
  group('Compare', {
    'Other rate limiters': '/comparison',
    Benchmarks: '/benchmarks/',
    'Move to FluxGate': '/migration',
    'Questions and answers': '/faq',
  }),
  { text: 'Decisions', collapsed: true, items: decisions() },
]

function group(text: string, pages: Record<string, string>): Item {
  return { text, collapsed: false, items: Object.entries(pages).map(([text, link]) => ({ text, link })) }
}

// The records in docs/decisions, by their headings.
function decisions(): Item[] {
  const records = readdirSync(`${docs}decisions`).filter((name) => /^\d+-.*\.md$/.test(name)).sort()
  return [
    { text: 'About the records', link: '/decisions/' },
    ...records.map((name) => ({
      text: readFileSync(`${docs}decisions/${name}`, 'utf8').match(/^# (.+)$/m)![1],
      link: `/decisions/${name.slice(0, -'.md'.length)}`,
    })),
  ]
}
