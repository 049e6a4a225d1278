import { Badge, createTheme, Modal } from "@mantine/core";

export const theme = createTheme({
  respectReducedMotion: true,
  components: {
    Badge: Badge.extend({ defaultProps: { tt: "none" } }),
    // Locking the page's scrolling needs a style element, which the
    // Content-Security-Policy refuses.
    Modal: Modal.extend({ defaultProps: { lockScroll: false, closeButtonProps: { "aria-label": "Close" }, attributes: { header: { role: "presentation" } } } }),
  },
});
