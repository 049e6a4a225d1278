package clientip_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/fluxgate/fluxgate/clientip"
)

// A server behind one nginx. The client claims to be somebody else, and nginx
// appends where the request really came from.
func ExampleNew() {
	ips, err := clientip.New(clientip.Config{TrustedProxies: []string{"192.0.2.10"}})
	if err != nil {
		log.Fatal(err)
	}

	req := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	req.Header.Set("X-Forwarded-For", "198.51.100.1, 203.0.113.7")
	req.RemoteAddr = "192.0.2.10:41234"
	fmt.Println("through nginx:", ips.Addr(req))

	req.RemoteAddr = "203.0.113.7:50000"
	fmt.Println("past nginx:", ips.Addr(req))
	// Output:
	// through nginx: 203.0.113.7
	// past nginx: 203.0.113.7
}

// A server that only Cloudflare can reach, with two of its networks.
func ExampleResolver_Addr_cdn() {
	ips, err := clientip.New(clientip.Config{
		TrustedProxies: []string{"173.245.48.0/20", "2400:cb00::/32"},
		Header:         "CF-Connecting-IP",
	})
	if err != nil {
		log.Fatal(err)
	}

	req := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	req.RemoteAddr = "173.245.48.5:41234"
	req.Header.Set("CF-Connecting-IP", "2001:db8::7")
	fmt.Println(ips.Addr(req))
	// Output: 2001:db8::7
}

// What is wrong with a configuration is said at the start.
func ExampleNew_refused() {
	_, err := clientip.New(clientip.Config{TrustedProxies: []string{"0.0.0.0/0", "10.1.2.3/16"}})
	fmt.Println(err)
	// Output:
	// client addresses: trusted proxy "0.0.0.0/0" is too wide: the widest network of proxies is /8
	// trusted proxy "10.1.2.3/16" has bits beyond its prefix: write 10.1.0.0/16, or 10.1.2.3 for the one address
}
