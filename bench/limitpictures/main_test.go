package main

import (
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const images = "../../docs/images"

// The pictures of the documentation are drawn by this program from what the engine
// decides now, and docs/limits.md shows each of them.
func TestPictures_Current(t *testing.T) {
	page, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	drawn := pictures()
	for name, svg := range drawn {
		if is, err := os.ReadFile(filepath.Join(images, name)); err != nil || string(is) != svg {
			t.Errorf("docs/images/%s is not what is drawn now (%v): run make pictures, and look at it", name, err)
		}
		if !strings.Contains(string(page), "](images/"+name+")") {
			t.Errorf("docs/limits.md does not show %s", name)
		}
	}
	files, err := filepath.Glob(images + "/limit-*.svg")
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if want := slices.Sorted(maps.Keys(drawn)); !slices.Equal(files, want) {
		t.Errorf("docs/images has %v, drawn are %v", files, want)
	}
}

// The clock of the machine does not change the pictures.
func TestPictures_AnyDay(t *testing.T) {
	now := pictures()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(100*time.Hour + 37*time.Second) // in the year 2000
		if !maps.Equal(pictures(), now) {
			t.Error("the pictures depend on when they are drawn")
		}
	})
}

// Browsers show only well-formed documents.
func TestPictures_WellFormed(t *testing.T) {
	for name, svg := range pictures() {
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// The pictures show what docs/limits.md says about them: in 60 seconds a quota admits
// twice its capacity around an edge, and a sliding window never more than its capacity.
func TestPlay_BusiestMinute(t *testing.T) {
	for _, c := range []struct {
		name string
		*history
		want int
	}{
		{"token bucket", play(bucket, 180, manyRequests), 19},
		{"quota", play(quota, 180, manyRequests), 16},
		{"sliding window", play(window, 180, manyRequests), 10},
		{"quota around an edge", play(quota, 120, aroundAnEdge), 20},
		{"sliding window around an edge", play(window, 120, aroundAnEdge), 10},
	} {
		if got := c.admitted(c.busiest()); got != c.want {
			t.Errorf("%s: %d in 60 s, docs/limits.md says %d", c.name, got, c.want)
		}
	}
}

// A killed request gives its slot back when its hold has passed, and not before.
func TestPlay_LostSlot(t *testing.T) {
	h := play(slots, 30, []call{{at: 1, takes: 20}, {at: 2, takes: 20}, {at: 3, takes: 2, killed: true}, {at: 12.75}, {at: 13}})
	if early, due := h.answers[3], h.answers[4]; early.Allowed || !due.Allowed {
		t.Errorf("%v a moment before the hold has passed and %v then, want false and true", early.Allowed, due.Allowed)
	}
}
