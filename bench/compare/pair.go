package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/bench/result"
)

// Key identifies a comparison: both sides of a pair have the same key.
type Key struct {
	Scenario string  `json:"scenario"`
	Subject  string  `json:"subject"`
	Store    string  `json:"store"`
	Offered  float64 `json:"offered"` // tasks/s; 0 is a closed loop
}

// is reports whether two keys are the same, with loads within rounding.
func (k Key) is(o Key) bool {
	near := result.SameLoad(k.Offered, o.Offered)
	o.Offered = k.Offered
	return k == o && near
}

// String describes a key.
func (k Key) String() string {
	s := k.Scenario + ", " + k.Subject
	if k.Store != "" {
		s += " on " + k.Store
	}
	if k.Offered > 0 {
		s += fmt.Sprintf(", %g tasks/s offered", k.Offered)
	}
	return s
}

// set has the runs of one key that were made under the same conditions.
type set struct {
	key  Key
	from *result.Result // the first of them
	runs []*result.Run
}

// variant distinguishes sets with the same key.
func (s *set) variant() string { return s.from.Subject.Settings + "\x00" + s.from.Subject.Durability }

// split returns the runs of results as sets, in the order of the results.
func split(results []*result.Result) []*set {
	var out []*set
	for _, res := range results {
		for i := range res.Runs {
			run := &res.Runs[i]
			s := &set{Key{res.Scenario, res.Subject.Name, res.Subject.Store, run.Offered}, res, nil}
			at := slices.IndexFunc(out, func(o *set) bool { return o.key.is(s.key) && o.variant() == s.variant() })
			if at < 0 {
				at = len(out)
				out = append(out, s)
			}
			out[at].runs = append(out[at].runs, run)
		}
	}
	return out
}

// pairUp returns pairs of sets with the same key, and the remaining sets. It first pairs sets of the
// same variant, and then sets with the same key, if exactly one remains on each side.
func pairUp(a, b []*set) (pairs [][2]*set, onlyA, onlyB []*set) {
	match := func(same func(x, y *set) bool) {
		for i := 0; i < len(a); i++ {
			x := a[i]
			at := slices.IndexFunc(b, func(y *set) bool { return same(x, y) })
			if at < 0 {
				continue
			}
			pairs = append(pairs, [2]*set{x, b[at]})
			a, b = slices.Delete(a, i, i+1), slices.Delete(b, at, at+1)
			i--
		}
	}
	a, b = slices.Clone(a), slices.Clone(b)
	order := slices.Clone(a)
	match(func(x, y *set) bool { return x.key.is(y.key) && x.variant() == y.variant() })
	match(func(x, y *set) bool { return x.key.is(y.key) && count(a, x.key) == 1 && count(b, x.key) == 1 })
	slices.SortFunc(pairs, func(p, q [2]*set) int { return slices.Index(order, p[0]) - slices.Index(order, q[0]) })
	return pairs, a, b
}

func count(sets []*set, k Key) (n int) {
	for _, s := range sets {
		if s.key.is(k) {
			n++
		}
	}
	return n
}

// condition is a property that should be the same on both sides.
type condition struct{ name, a, b string }

// differences returns the conditions that differ between two sides.
func differences(a, b *result.Result) []string {
	m, n := a.Machine, b.Machine
	conditions := []condition{
		{"operating system", m.OS, n.OS},
		{"architecture", m.Arch, n.Arch},
		{"kernel", m.Kernel, n.Kernel},
		{"CPU", m.CPU, n.CPU},
		{"cores", fmt.Sprint(m.Cores), fmt.Sprint(n.Cores)},
		{"bytes of memory", fmt.Sprint(m.Memory), fmt.Sprint(n.Memory)},
		{"disk", m.Disk, n.Disk},
		{"Go", m.Go, n.Go},
		{"durability", a.Subject.Durability, b.Subject.Durability},
		{"settings", a.Subject.Settings, b.Subject.Settings},
		{"configuration of the scenario", plain(a.Config), plain(b.Config)},
	}
	var out []string
	for _, c := range conditions {
		if c.a != c.b {
			out = append(out, fmt.Sprintf("%s differs: %s in A, %s in B", c.name, quoted(c.a), quoted(c.b)))
		}
	}
	return append(out, otherLimits(a.Limits, b.Limits)...)
}

// limitFactor is the factor by which a limit of the machine may differ without a warning, even if all
// of its repetitions do: disks of virtual machines are never quite the same.
const limitFactor = 1.25

// otherLimits returns which limits of the machine differ between a and b.
func otherLimits(a, b []result.Limit) []string {
	var out []string
	for _, x := range a {
		at := slices.IndexFunc(b, func(y result.Limit) bool { return x.Name == y.Name && x.Unit == y.Unit })
		if at < 0 {
			continue
		}
		y := b[at]
		apart := x.High < y.Low || y.High < x.Low
		if apart && (x.Value > limitFactor*y.Value || y.Value > limitFactor*x.Value) {
			out = append(out, fmt.Sprintf("the machine's limit %s differs: %g %s in A, %g %s in B", x.Name, x.Value, x.Unit, y.Value, y.Unit))
		}
	}
	return out
}

// plain returns JSON without spaces and with sorted fields.
func plain(doc json.RawMessage) string {
	if len(doc) == 0 {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return string(doc)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(doc)
	}
	return string(out)
}

func quoted(s string) string {
	if s == "" {
		return "not said"
	}
	const most = 200
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// failures returns the runs of a side that failed their checks, in words.
func failures(side string, runs []*result.Run) []string {
	var out []string
	for i, r := range runs {
		c := &r.Check
		if c.Sound() {
			continue
		}
		text := fmt.Sprintf("run %d of %d of %s FAILED ITS CHECK, so its figures are worth nothing: %d lost, %d doubled, %d out of order, %d beyond a limit",
			i+1, len(runs), side, c.Lost, c.Doubled, c.Disorder, c.Exceeded)
		if len(c.Notes) > 0 {
			text += "; " + strings.Join(c.Notes[:min(3, len(c.Notes))], "; ")
		}
		out = append(out, text)
	}
	return out
}
