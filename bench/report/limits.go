package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/units"
)

// portion is a figure of a series as a ratio to a limit of the machine.
type portion struct {
	figure string
	limit  string
	ratio  float64
}

// text returns a portion in words.
func (p portion) text() string { return p.figure + units.Digits(p.ratio) + " × " + p.limit }

// portions compares a series with the limits of the machine: its rate with that of the bare store, and
// the median time of an insert with that of a bare sync. Without a steady load, inserts wait for each
// other, so their time is not compared.
func (s *series) portions() []portion {
	rate, ack := s.rate(), s.quantile(result.InsertAck, 0.5)
	var out []portion
	for _, l := range s.res.Limits {
		if rate.ok() && l.Unit == "ops/s" && l.Value > 0 && ofStore(l.Name, s.subject.Store) {
			out = append(out, portion{"", l.Name, rate.median / l.Value})
		}
	}
	slices.SortStableFunc(out, func(a, b portion) int { return cmp.Compare(b.ratio, a.ratio) })
	out = out[:min(len(out), 2)] // the nearest: the others do not limit
	for _, l := range s.res.Limits {
		if ack.ok() && s.offered > 0 && l.Unit == "ns" && l.Value > 0 && strings.HasPrefix(l.Name, "fsync") {
			return append(out, portion{"insert ", l.Name, ack.median / l.Value})
		}
	}
	return out
}

// ofStore reports whether a limit is that of a store, such as group-commit/pebble/256.
func ofStore(limit, store string) bool {
	store, _, _ = strings.Cut(strings.ToLower(store), " ")
	return store != "" && slices.Contains(strings.Split(strings.ToLower(limit), "/"), store)
}
