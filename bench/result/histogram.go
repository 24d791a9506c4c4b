package result

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds of a histogram: one nanosecond to one hour, three significant digits. A duration outside
// counts as the nearest bound.
const (
	shortest = 1
	longest  = int64(time.Hour)
	digits   = 3
)

// Histogram counts durations by size. The zero value is not usable; see NewHistogram. It is not safe
// for concurrent use: use one per goroutine, and merge them.
type Histogram struct{ hdr *hdrhistogram.Histogram }

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram { return &Histogram{hdrhistogram.New(shortest, longest, digits)} }

// Record counts one duration.
func (h *Histogram) Record(d time.Duration) {
	_ = h.hdr.RecordValue(min(max(int64(d), shortest), longest)) // fails only outside the bounds
}

// Merge adds the durations of another histogram.
func (h *Histogram) Merge(other *Histogram) { h.hdr.Merge(other.hdr) }

// Count returns the number of recorded durations.
func (h *Histogram) Count() int64 { return h.hdr.TotalCount() }

// Quantile returns the q-quantile (0 to 1) of the recorded durations, within a thousandth, or 0 if
// there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	return time.Duration(h.hdr.ValueAtPercentile(100 * q))
}

// Max returns the longest duration, within a thousandth.
func (h *Histogram) Max() time.Duration { return time.Duration(h.hdr.Max()) }

// Mean returns the mean.
func (h *Histogram) Mean() time.Duration { return time.Duration(h.hdr.Mean()) }

// quantiles are the quantiles in a document, by the names of their fields.
var quantiles = [...]struct {
	name string
	q    float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}}

// MarshalJSON writes the usual quantiles in nanoseconds to be read, and all counts in the compressed
// form of HdrHistogram (V2, base64) to be parsed.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	encoded, err := h.hdr.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode a histogram: %w", err)
	}
	doc := map[string]any{"count": h.Count(), "mean": h.Mean(), "max": h.Max(), "hdr": string(encoded)}
	for _, q := range quantiles {
		doc[q.name] = h.Quantile(q.q)
	}
	return json.Marshal(doc)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (h *Histogram) UnmarshalJSON(data []byte) error {
	var doc struct {
		HDR string `json:"hdr"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	hdr, err := hdrhistogram.Decode([]byte(doc.HDR))
	if err != nil {
		return fmt.Errorf("decode a histogram: %w", err)
	}
	h.hdr = hdr
	return nil
}
