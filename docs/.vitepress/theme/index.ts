import DefaultTheme from 'vitepress/theme-without-fonts' // those of the system: Inter is as large as the code
import Mermaid from './Mermaid.vue'
import './style.css'

export default {
  extends: DefaultTheme,
  enhanceApp: ({ app }) => app.component('Mermaid', Mermaid),
}
