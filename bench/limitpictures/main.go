// Command limitpictures draws the pictures of docs/limits.md: what an engine decides
// under each kind of limit, on a clock that a script of requests sets.
//
//	go run -C bench ./limitpictures ../docs/images
package main

import (
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

var (
	bucket = rules.Band{Capacity: 10, Refill: time.Minute}
	quota  = rules.Band{Kind: rules.Quota, Capacity: 10, Period: "minute"}
	window = rules.Band{Kind: rules.SlidingWindow, Capacity: 10, Refill: time.Minute}
	slots  = rules.Band{Kind: rules.Concurrency, Capacity: 3, Hold: 10 * time.Second}
)

// The first three kinds get the same requests, so that they can be compared.
var (
	manyRequests = []call{
		{at: 10, requests: 4}, {at: 28, requests: 4}, {at: 46, requests: 5}, {at: 66, requests: 6}, {at: 84, requests: 4},
		{at: 104, requests: 4}, {at: 128, requests: 4}, {at: 152, requests: 4}, {at: 170, requests: 5},
	}
	aroundAnEdge = []call{
		{at: 46, requests: 5}, {at: 53, requests: 5}, {at: 64, requests: 5}, {at: 71, requests: 5}, {at: 110, requests: 5},
	}
	longRequests = []call{
		{at: 1, takes: 5}, {at: 2, takes: 19}, {at: 3.5, takes: 2.5, killed: true}, {at: 7, takes: 4}, {at: 8.5, takes: 1},
		{at: 10, takes: 1}, {at: 11.5, takes: 5}, {at: 12.5, takes: 1}, {at: 15, takes: 9}, {at: 18, takes: 4},
		{at: 21.5, takes: 4.5}, {at: 25, takes: 3},
	}
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: limitpictures FOLDER")
	}
	for name, svg := range pictures() {
		file := filepath.Join(os.Args[1], name)
		if err := os.WriteFile(file, []byte(svg), 0o644); err != nil { //nolint:gosec // pictures are for everyone
			log.Fatal(err)
		}
	}
}

// pictures returns the pictures by the names of their files.
func pictures() map[string]string {
	return map[string]string{
		"limit-token-bucket.svg": levelPicture("Token bucket: tokens come back evenly",
			"kind: token-bucket, capacity: 10, refill: 1m", play(bucket, 180, manyRequests)),
		"limit-quota.svg": levelPicture("Quota: all tokens come back when the period ends",
			"kind: quota, capacity: 10, period: minute", play(quota, 180, manyRequests)),
		"limit-sliding-window.svg": levelPicture("Sliding window: a token comes back when it is older than the period",
			"kind: sliding-window, capacity: 10, period: 1m", play(window, 180, manyRequests)),
		"limit-concurrency.svg": slotsPicture("Concurrency: a request holds a slot until it ends",
			"kind: concurrency, capacity: 3, hold: 10s", play(slots, 30, longRequests)),
		"limit-edge.svg": edgePicture("The same requests around the end of a minute",
			play(quota, 120, aroundAnEdge), play(window, 120, aroundAnEdge)),
	}
}
