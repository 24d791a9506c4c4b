package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

// row is what is known of one subject.
type row struct {
	settings
	about result.Subject
	of    map[string]*result.Result // by scenario
}

// writeTables writes results as Markdown: throughput, latency, how taskengine compares,
// and what was measured.
func writeTables(w io.Writer, results []*result.Result) error {
	var rows []*row
	for _, r := range results {
		var c settings
		if err := json.Unmarshal(r.Config, &c); err != nil {
			return fmt.Errorf("the configuration of %s on %s: %w", r.Scenario, r.Subject.Name, err)
		}
		i := slices.IndexFunc(rows, func(x *row) bool { return x.Subject == c.Subject })
		if i < 0 {
			i = len(rows)
			rows = append(rows, &row{settings: c, about: r.Subject, of: make(map[string]*result.Result)})
		}
		rows[i].of[r.Scenario] = r
	}
	t := &tables{w: w}
	if len(results) > 0 {
		m := results[0].Machine
		var others []float64
		for _, r := range rows {
			others = append(others, r.Others...)
		}
		slices.Sort(others)
		t.say("%d cores (%s), %.0f GB, %s, %s %s, %s; payload 256 B; median of %d runs, and the lowest and highest of them. Other programs used %s cores meanwhile.\n",
			m.Cores, m.CPU, float64(m.Memory)/(1<<30), m.Disk, m.OS, m.Kernel, m.Go, len(results[0].Runs), spread(others, "%.2f"))
	}
	t.throughput(rows)
	t.latency(rows)
	t.compare(rows)
	t.legend(rows)
	return t.err
}

// tables writes to w until something fails.
type tables struct {
	w   io.Writer
	err error
}

func (t *tables) say(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format+"\n", args...)
	}
}

func (t *tables) throughput(rows []*row) {
	t.say("| subject | durable | insert one by one, /s | insert many, /s | drain, /s | whole lives one by one, /s | whole lives in batches, /s | run twice | lost |")
	t.say("|---|---|--:|--:|--:|--:|--:|--:|--:|")
	for _, r := range rows {
		var twice, lost int64
		for _, res := range r.of {
			for _, run := range res.Runs {
				twice += run.Attempts - run.Finished
				lost += run.Check.Lost
			}
		}
		t.say("| %s | %s | %s | %s | %s | %s | %s | %d | %d |", r.Subject, yes(r.Durable),
			r.rate(insertOne), r.rate(insertMany), r.rate(drain), r.rate(lifeOne), r.rate(lifeMany), twice, lost)
	}
	t.say("")
}

func (t *tables) latency(rows []*row) {
	rate := 0
	for _, r := range rows {
		rate = max(rate, r.Rate)
	}
	t.say("Open loop, %d/s, milliseconds from the time at which a job was to be inserted:\n", rate)
	t.say("| subject | durable | acknowledged p50 | p99 | started p50 | p99 | p99.9 | max |")
	t.say("|---|---|--:|--:|--:|--:|--:|--:|")
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *row) int {
		return cmp.Or(-cmp.Compare(yes(a.Durable), yes(b.Durable)), cmp.Compare(a.start(0.5), b.start(0.5)))
	})
	for _, r := range rows {
		if r.of[latency] == nil {
			continue
		}
		t.say("| %s | %s | %s | %s | %s | %s | %s | %s |", r.Subject, yes(r.Durable),
			r.quantile(result.InsertAck, 0.5), r.quantile(result.InsertAck, 0.99),
			r.quantile(result.InsertToStart, 0.5), r.quantile(result.InsertToStart, 0.99),
			r.quantile(result.InsertToStart, 0.999), r.quantile(result.InsertToStart, 1))
	}
	t.say("")
}

// compare says how many times the whole lives of taskengine are the drain of others,
// which is less work: their inserts came before.
func (t *tables) compare(rows []*row) {
	var ours []*row
	for _, r := range rows {
		if r.about.Name == "taskengine" && r.Best {
			ours = append(ours, r)
		}
	}
	if len(ours) == 0 {
		return
	}
	t.say("Whole lives of taskengine, its better way to insert, divided by what others drain and by their whole lives; and their latency divided by its:\n")
	t.say("| subject | durable |%s", strings.Join(mapped(ours, func(r *row) string {
		s := r.about.Store
		return fmt.Sprintf(" %s: lives / drain | lives / lives | start p50 | p99 |", s)
	}), ""))
	t.say("|---|---|%s", strings.Repeat("--:|", 4*len(ours)))
	for _, r := range rows {
		if r.about.Name == "taskengine" {
			continue
		}
		t.say("| %s | %s |%s", r.Subject, yes(r.Durable), strings.Join(mapped(ours, func(o *row) string {
			lives := max(o.median(lifeOne), o.median(lifeMany))
			return fmt.Sprintf(" %s | %s | %s | %s |", times(lives, r.median(drain)),
				times(lives, max(r.median(lifeOne), r.median(lifeMany))),
				times(float64(r.start(0.5)), float64(o.start(0.5))), times(float64(r.start(0.99)), float64(o.start(0.99))))
		}), ""))
	}
	t.say("")
}

// mapped returns what fn makes of each.
func mapped[T, U any](in []T, fn func(T) U) []U {
	out := make([]U, len(in))
	for i, x := range in {
		out[i] = fn(x)
	}
	return out
}

func (t *tables) legend(rows []*row) {
	t.say("What was measured:\n")
	for _, r := range rows {
		t.say("- **%s**: %s %s, %s. %s. Durability: %s.", r.Subject, r.about.Name, r.about.Version, r.about.Store, upper(r.about.Settings), r.about.Durability)
	}
	var notes []string
	for _, r := range rows {
		for _, res := range r.of {
			for _, run := range res.Runs {
				if !run.Check.OK {
					notes = append(notes, fmt.Sprintf("- **%s**, %s: %s", r.Subject, res.Scenario, strings.Join(run.Check.Notes, "; ")))
				}
			}
		}
	}
	if len(notes) > 0 {
		slices.Sort(notes)
		t.say("\nRuns that did not go as they should:\n\n%s", strings.Join(notes, "\n"))
	}
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// times is a ratio in words.
func times(a, b float64) string {
	switch {
	case a == 0 || b == 0:
		return "-"
	case a/b < 10:
		return fmt.Sprintf("%.2f", a/b)
	}
	return fmt.Sprintf("%.0f", a/b)
}

func (r *row) values(scenario string, fn func(result.Run) float64) []float64 {
	res := r.of[scenario]
	if res == nil {
		return nil
	}
	out := mapped(res.Runs, fn)
	slices.Sort(out)
	return out
}

func median(values []float64) float64 {
	return middle(slices.Sorted(slices.Values(values)))
}

// middle is the median of sorted values; zero if there are none.
func middle(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func rateOf(run result.Run) float64 { return run.Rate }

func (r *row) median(scenario string) float64 { return middle(r.values(scenario, rateOf)) }

func (r *row) rate(scenario string) string { return spread(r.values(scenario, rateOf), "%.0f") }

func (r *row) start(q float64) time.Duration {
	return time.Duration(middle(r.values(latency, func(run result.Run) float64 {
		return float64(run.Latency[result.InsertToStart].Quantile(q))
	})))
}

func (r *row) quantile(name string, q float64) string {
	return spread(r.values(latency, func(run result.Run) float64 {
		return float64(run.Latency[name].Quantile(q)) / float64(time.Millisecond)
	}), "%.3g")
}

// spread is the median of sorted values and, in brackets, the lowest and the highest.
func spread(sorted []float64, format string) string {
	switch len(sorted) {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf(format, sorted[0])
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", middle(sorted), sorted[0], sorted[len(sorted)-1])
}
