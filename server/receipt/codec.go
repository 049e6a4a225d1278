package receipt

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// version is that of the payload format.
const version = 2

var errPayload = errors.New("unreadable payload")

// encode encodes what settling needs. It does not contain the caller's identity.
func encode(id ID, now time.Time, r *fluxgate.Receipt) []byte {
	b := make([]byte, 0, 256)
	b = append(b, version)
	b = append(b, id[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(now.UnixMilli()))
	b = binary.AppendUvarint(b, uint64(len(r.Takes)))
	for i := range r.Takes {
		t := &r.Takes[i]
		b = appendText(b, t.Key.RuleSet)
		b = appendText(b, t.Key.Rule)
		b = append(b, t.Key.ID[:]...)
		b = binary.AppendVarint(b, t.Cost)
		b = binary.AppendVarint(b, t.Asked)
		if price := r.Price(i); price == nil {
			b = append(b, byte(t.Source))
		} else {
			b = appendPrice(append(b, byte(t.Source)|priced), price)
		}
		b = binary.AppendVarint(b, t.At)
		b = binary.AppendUvarint(b, uint64(len(t.Bands)))
		for j := range t.Bands {
			b = appendBand(b, &t.Bands[j])
		}
		b = binary.AppendUvarint(b, uint64(len(t.Due)))
		for _, due := range t.Due {
			b = binary.AppendVarint(b, due)
		}
		if t.HoldsSlot() {
			b = append(b, t.Holder[:]...)
		}
	}
	return b
}

// idBits is how many bits the id of a band has. Those above are its kind, so that
// receipts of token buckets are the same for servers that know no other kind.
const idBits = 24

// priced is set in the byte of the source if a price follows, so that receipts of
// requests alone are the same for servers that know no other measure.
const priced = 0x80

func appendPrice(b []byte, p *fluxgate.Price) []byte {
	b = appendText(b, p.Measure)
	if p.Weights == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	for _, weight := range []int64{p.Weights.Input, p.Weights.CachedInput, p.Weights.Output, p.Weights.Reasoning} {
		b = binary.AppendVarint(b, weight)
	}
	return b
}

func (r *reader) price() *fluxgate.Price {
	p := &fluxgate.Price{Measure: r.text()}
	if r.byte() == 1 {
		p.Weights = &rules.Weights{Input: r.int(), CachedInput: r.int(), Output: r.int(), Reasoning: r.int()}
	}
	return p
}

// appendBand encodes the parameters of a band.
func appendBand(b []byte, band *store.ExactBand) []byte {
	b = binary.AppendUvarint(b, uint64(band.Kind)<<idBits|uint64(band.ID))
	b = binary.AppendVarint(b, band.Capacity)
	b = binary.AppendVarint(b, band.Tokens)
	b = binary.AppendVarint(b, int64(min(band.Period, bucket.MaxPeriod))) // that of a share may be longer
	if band.Kind == bucket.Quota {
		for _, edge := range band.Edges {
			b = binary.AppendVarint(b, edge)
		}
	}
	return b
}

func (r *reader) band(band *store.ExactBand) {
	first, capacity, tokens, period := r.uint(), r.int(), r.int(), time.Duration(r.int())
	id, kind := uint32(first)&(1<<idBits-1), first>>idBits
	var err error
	switch kind {
	case uint64(bucket.TokenBucket):
		*band, err = bucket.NewBand(id, capacity, tokens, period)
	case uint64(bucket.Quota):
		*band, err = bucket.NewQuota(id, capacity, period)
		band.Edges = [3]int64{r.int(), r.int(), r.int()}
	case uint64(bucket.Window):
		*band, err = bucket.NewWindow(id, capacity, period)
	case uint64(bucket.Concurrency):
		*band, err = bucket.NewConcurrency(id, capacity, period)
	default:
		err = errPayload
	}
	if err != nil {
		r.fail()
	}
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decode is the way back. The payload is signed, but may be of another
// version of ourselves.
func decode(b []byte) (id ID, issued time.Time, r *fluxgate.Receipt, err error) {
	d := reader{rest: b}
	if d.byte() != version {
		return id, issued, nil, errPayload
	}
	copy(id[:], d.bytes(len(id)))
	if at := d.bytes(8); at != nil {
		issued = time.UnixMilli(int64(binary.BigEndian.Uint64(at)))
	}
	r = &fluxgate.Receipt{Takes: make(store.Takes, d.count(store.MaxMatches))}
	r.Prices = make([]*fluxgate.Price, len(r.Takes))
	for i := range r.Takes {
		t := &r.Takes[i]
		t.Key.RuleSet, t.Key.Rule = d.text(), d.text()
		copy(t.Key.ID[:], d.bytes(len(t.Key.ID)))
		t.Cost, t.Asked = d.cost(), d.cost()
		source := d.byte()
		if t.Source = store.Source(source &^ priced); source&priced != 0 {
			r.Prices[i] = d.price()
		}
		t.At = d.int()
		t.Bands = make([]store.ExactBand, d.count(store.MaxBands))
		for j := range t.Bands {
			d.band(&t.Bands[j])
		}
		if n := d.count(len(t.Bands)); n > 0 {
			t.Due = make([]int64, n)
			for j := range t.Due {
				t.Due[j] = d.int()
			}
		}
		if t.HoldsSlot() {
			copy(t.Holder[:], d.bytes(len(t.Holder)))
		}
	}
	if d.failed || len(d.rest) > 0 {
		return id, issued, nil, errPayload
	}
	return id, issued, r, nil
}

// reader reads a payload and remembers if it was too short.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) fail() { r.failed, r.rest = true, nil }

// skip skips n bytes that were read. 0 and below mean that they could not be read.
func (r *reader) skip(n int) {
	if n <= 0 {
		r.fail()
		return
	}
	r.rest = r.rest[n:]
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.fail()
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// cost is a cost that stores settle. Earlier versions had no bound for the cost of a slot.
func (r *reader) cost() int64 {
	n := r.int()
	if n < 0 {
		r.fail()
	}
	return min(max(0, n), store.MaxCost)
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.rest)
	r.skip(n)
	return v
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.skip(n)
	return v
}

// count is a length that is not above most.
func (r *reader) count(most int) int {
	n := r.uint()
	if n > uint64(most) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) text() string { return string(r.bytes(r.count(64))) }
