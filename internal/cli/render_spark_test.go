package cli

import "testing"

// The last character is the newest value, spikes stay, and unknown is not zero.
func TestSparkline_Cases(t *testing.T) {
	for _, c := range []struct {
		values []float64 // -1 is unknown
		width  int
		want   string
	}{
		{nil, 10, ""},
		{[]float64{0, 0}, 10, "▁▁"},
		{[]float64{-1, 0, 1, 50, 100}, 10, " ▁▂▅█"},
		{[]float64{0, 100, 0, 0, 1}, 3, "▁█▂"},
		{[]float64{100, 0, -1, -1, -1, 0}, 3, "█ ▁"},
		{[]float64{1, 2}, 0, ""},
	} {
		var values []*float64
		for i := range c.values {
			if values = append(values, nil); c.values[i] >= 0 {
				values[i] = &c.values[i]
			}
		}
		if got, _ := sparkline(values, c.width); got != c.want {
			t.Errorf("%v in %d: %q, want %q", c.values, c.width, got, c.want)
		}
	}
}
