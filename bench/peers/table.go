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

// row has the results of one subject.
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
		t.machine(rows, results[0])
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

func (t *tables) machine(rows []*row, r *result.Result) {
	var others []float64
	var servers []string
	for _, r := range rows {
		others = append(others, r.Others...)
		servers = append(servers, r.Servers...)
	}
	slices.Sort(others)
	slices.Sort(servers)
	idle := "No server of another queue ran meanwhile."
	if servers = slices.Compact(servers); len(servers) > 0 {
		idle = "Servers that others had started ran meanwhile: " + strings.Join(servers, ", ") + "."
	}
	rounds := "one round"
	if n := len(r.Runs); n > 1 {
		rounds = fmt.Sprintf("median of %d rounds, and the lowest and highest of them", n)
	}
	m := r.Machine
	t.say("%d cores (%s), %.0f GB, %s, %s %s, %s; payload %d B; %s. Other programs used %s cores meanwhile. %s\n",
		m.Cores, m.CPU, float64(m.Memory)/(1<<30), m.Disk, m.OS, m.Kernel, m.Go, payloadSize, rounds, spread(others, "%.2f"), idle)
}

func (t *tables) throughput(rows []*row) {
	t.say("| subject | version | durable | insert one by one, /s | insert many, /s | drain, /s | whole lives one by one, /s | whole lives in batches, /s | run twice | not run in time |")
	t.say("|---|---|---|--:|--:|--:|--:|--:|--:|--:|")
	for _, r := range rows {
		var twice, lost int64
		for _, res := range r.of {
			for _, run := range res.Runs {
				twice += run.Attempts - run.Finished
				lost += run.Check.Lost
			}
		}
		t.say("| %s | %s | %s | %s | %s | %s | %s | %s | %d | %d |", r.Subject, r.version(), yes(r.Durable),
			r.rate(insertOne), r.rate(insertMany), r.rate(drain), r.rate(lifeOne), r.rate(lifeMany), twice, lost)
	}
	t.say("")
}

func (t *tables) latency(rows []*row) {
	rate := 0
	for _, r := range rows {
		rate = max(rate, r.Rate)
	}
	t.say("Open loop, %d/s on average (Poisson), milliseconds from the time at which a job was to be inserted. Late: inserts called more than 1 ms after it.\n", rate)
	t.say("| subject | durable | acknowledged p50 | p99 | started p50 | p99 | p99.9 | max | late |")
	t.say("|---|---|--:|--:|--:|--:|--:|--:|--:|")
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *row) int {
		return cmp.Or(-cmp.Compare(yes(a.Durable), yes(b.Durable)), cmp.Compare(a.start(0.5), b.start(0.5)))
	})
	for _, r := range rows {
		if r.of[latency] == nil {
			continue
		}
		t.say("| %s | %s | %s | %s | %s | %s | %s | %s | %s |", r.Subject, yes(r.Durable),
			r.quantile(result.InsertAck, 0.5), r.quantile(result.InsertAck, 0.99),
			r.quantile(result.InsertToStart, 0.5), r.quantile(result.InsertToStart, 0.99),
			r.quantile(result.InsertToStart, 0.999), r.quantile(result.InsertToStart, 1),
			spread(r.values(latency, func(run result.Run) float64 { return 100 * float64(run.Late) / float64(run.Submitted) }), "%.1f %%"))
	}
	t.say("")
}

// compare writes the ratio of whole lives of taskengine to the drains of other queues, which are less
// work because their inserts came before.
func (t *tables) compare(rows []*row) {
	var ours []*row
	for _, r := range rows {
		if r.about.Name == "taskengine" && r.Main {
			ours = append(ours, r)
		}
	}
	if len(ours) == 0 {
		return
	}
	t.say("Whole lives of taskengine with its best number of slots and its better way to insert, divided by what others drain and by their whole lives; and their latency divided by its:\n")
	t.say("| subject | durable |%s", strings.Join(mapped(ours, func(r *row) string {
		name := strings.TrimSuffix(strings.TrimPrefix(r.Subject, "taskengine-"), "-best")
		return fmt.Sprintf(" %s: lives / drain | lives / lives | start p50 | p99 |", name)
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
		t.say("- **%s**: %s %s, %s. %s. Durability: %s.%s", r.Subject, r.about.Name, r.about.Version, r.about.Store, upper(r.about.Settings), r.about.Durability, r.chosen())
	}
	var notes []string
	for _, r := range rows {
		for _, res := range r.of {
			for _, run := range res.Runs {
				for _, n := range run.Notes {
					notes = append(notes, fmt.Sprintf("- **%s**, %s: %s", r.Subject, res.Scenario, n))
				}
				if !run.Check.OK {
					notes = append(notes, fmt.Sprintf("- **%s**, %s: %s", r.Subject, res.Scenario, strings.Join(run.Check.Notes, "; ")))
				}
			}
		}
	}
	if len(notes) > 0 {
		slices.Sort(notes)
		t.say("\nRuns that did not go as they should:\n\n%s", strings.Join(slices.Compact(notes), "\n"))
	}
}

// version is that of the queue and its store, if it has one of its own.
func (r *row) version() string {
	return strings.TrimPrefix(r.about.Version, "v") + ", " + r.about.Store
}

// chosen returns the variants that were tried and the best ones, in words.
func (r *row) chosen() string {
	if len(r.Trials) == 0 {
		return ""
	}
	tried := mapped(r.Trials, func(t trial) string {
		if t.Failed != "" {
			return t.Says + ": " + t.Failed
		}
		return fmt.Sprintf("%s: %.0f/s, %.3g ms", t.Says, t.Drain, float64(t.Start)/float64(time.Millisecond))
	})
	return fmt.Sprintf(" Throughput with %s, latency with %s. Tried before (drain, start p90): %s.", r.Drains, r.Starts, strings.Join(tried, "; "))
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
