// Measures the home page as a browser with an empty cache loads it: the time of the first
// contentful paint and the bytes of all responses, headers included, until the page is quiet.
// The built site is served compressed with gzip over a line of 10 Mbit/s with a latency of 40 ms
// (the desktop preset of Lighthouse). The time is the median of five loads.
import { createServer } from 'node:http'
import { existsSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { chromium } from 'playwright-core'

const bars = { firstPaintMs: 1_000, kilobytes: 300 }
const root = join(import.meta.dirname, '.vitepress', 'dist')
const base = process.env.DOCS_BASE || '/'
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.png': 'image/png', '.webp': 'image/webp', '.woff2': 'font/woff2' }

const server = createServer((request, response) => {
  const path = join(root, new URL(request.url, 'http://site').pathname.slice(base.length).replace(/(^|\/)$/, '$1index.html'))
  if (!existsSync(path)) return response.writeHead(404).end()
  const type = types[extname(path)] ?? 'application/octet-stream'
  const content = readFileSync(path)
  if (!/^text|svg/.test(type)) return response.writeHead(200, { 'Content-Type': type }).end(content)
  response.writeHead(200, { 'Content-Type': type, 'Content-Encoding': 'gzip' }).end(gzipSync(content))
})
await new Promise((listening) => server.listen(0, '127.0.0.1', listening))

async function load(browser) {
  const page = await browser.newPage()
  const network = await page.context().newCDPSession(page)
  const names = new Map()
  const loaded = new Map()
  network.on('Network.requestWillBeSent', ({ requestId, request }) => names.set(requestId, request.url))
  network.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => encodedDataLength > 0 && loaded.set(names.get(requestId), encodedDataLength))
  await network.send('Network.enable')
  await network.send('Network.emulateNetworkConditions', { offline: false, latency: 40, downloadThroughput: 10 * 1024 * 128, uploadThroughput: 10 * 1024 * 128 })
  await page.goto(`http://127.0.0.1:${server.address().port}${base}`, { waitUntil: 'networkidle' })
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime)
  await page.context().close()
  return { paint, loaded: [...loaded].sort((a, b) => b[1] - a[1]) }
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium' })
const loads = []
for (let i = 0; i < 5; i++) loads.push(await load(browser))
await browser.close()
server.close()

const paint = loads.map((l) => l.paint).sort((a, b) => a - b)[2]
const kilobytes = Math.max(...loads.map((l) => l.loaded.reduce((sum, [, bytes]) => sum + bytes, 0))) / 1000
for (const [name, bytes] of loads[0].loaded) console.log(`${(bytes / 1000).toFixed(1).padStart(7)} KB  ${new URL(name).pathname}`)
console.log(`the home page: first contentful paint ${paint.toFixed(0)} ms (at most ${bars.firstPaintMs}), ${kilobytes.toFixed(0)} KB (at most ${bars.kilobytes})`)
process.exitCode = paint > bars.firstPaintMs || kilobytes > bars.kilobytes ? 1 : 0
