//go:build unix

package cluster_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// line is the note of a payout, or of the test: that the processes of a node are gone, or that a limit holds
// from then on.
type line struct {
	kind          string // begin, paid, stopped; gone; limit
	partner, task string
	node          string
	most          int // of the limit payouts
}

// parse reads a journal.
func parse(text string) (all []line, err error) {
	for s := range strings.Lines(text) {
		words := strings.Fields(s)
		l := line{kind: words[0]}
		switch {
		case l.kind == "limit" && len(words) == 2:
			l.most, err = strconv.Atoi(words[1])
		case l.kind == "gone" && len(words) == 2:
			l.node = words[1]
		case slices.Contains([]string{"begin", "paid", "stopped"}, l.kind) && len(words) == 4:
			l.partner, l.task, l.node = words[1], words[2], words[3]
		default:
			err = fmt.Errorf("it has the line %q", s)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// count has the counts of a journal.
type count struct {
	running    map[string]line // payouts that have begun and not ended, by task
	begun      int
	paid       map[string]int // by task
	most       int            // how many ran at once at most
	mostAtLast int            // since the last line about the limit
	mostOfOne  int            // of one partner
	wrong      []string
}

// examine counts the running payouts after each line of a journal. perPartner may run at once for a partner, and in
// all as many as the line before says. Payouts that began before such a line may go on.
func examine(all []line, perPartner int) count {
	c := count{running: make(map[string]line), paid: make(map[string]int)}
	most := 0
	partners := make(map[string]int)
	for _, l := range all {
		switch l.kind {
		case "limit":
			most, c.mostAtLast = l.most, 0
		case "gone":
			for task, r := range c.running {
				if r.node == l.node {
					delete(c.running, task)
					partners[r.partner]--
				}
			}
		case "begin":
			if _, twice := c.running[l.task]; twice {
				c.wrong = append(c.wrong, fmt.Sprintf("the payout %s runs twice at once", l.task))
				continue
			}
			c.begun++
			c.running[l.task] = l
			partners[l.partner]++
			c.mostOfOne = max(c.mostOfOne, partners[l.partner])
			c.most, c.mostAtLast = max(c.most, len(c.running)), max(c.mostAtLast, len(c.running))
			if len(c.running) > most || partners[l.partner] > perPartner {
				c.wrong = append(c.wrong, fmt.Sprintf("%d payouts run, of %d, and %d for %s, of %d", len(c.running), most, partners[l.partner], l.partner, perPartner))
			}
		default:
			if _, runs := c.running[l.task]; !runs {
				c.wrong = append(c.wrong, fmt.Sprintf("the payout %s ended on %s and did not run", l.task, l.node))
				continue
			}
			delete(c.running, l.task)
			if partners[l.partner]--; l.kind == "paid" {
				c.paid[l.task]++
			}
		}
	}
	return c
}

func TestAJournalIsExamined(t *testing.T) {
	const sound = "limit 2\nbegin a 1 n1\nbegin b 2 n2\ngone n1\nbegin c 3 n2\npaid b 2 n2\nlimit 1\nstopped c 3 n2\nbegin a 1 n2\npaid a 1 n2\n"
	for name, c := range map[string]struct{ old, changed, says string }{
		"sound":                         {"limit 2\n", "limit 2\n", ""},
		"with too many":                 {"gone n1\n", "", "3 payouts run, of 2"},
		"with too many of the new":      {"stopped c 3 n2\n", "", "2 payouts run, of 1"},
		"with too many for one partner": {"begin b 2", "begin a 2", "2 for a, of 1"},
		"with one that runs twice":      {"begin b 2", "begin a 1", "1 runs twice"},
		"with an end without begin":     {"begin c 3 n2\n", "", "3 ended on n2 and did not run"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := parse(strings.Replace(sound, c.old, c.changed, 1))
			if err != nil {
				t.Fatal(err)
			}
			got := examine(all, 1)
			if says := strings.Join(got.wrong, "; "); c.says == "" && says != "" || !strings.Contains(says, c.says) {
				t.Errorf("it says %q, want %q", says, c.says)
			}
			if c.says == "" && (got.begun != 4 || got.most != 2 || got.mostAtLast != 1 || got.paid["1"] != 1 || len(got.running) > 0) {
				t.Errorf("the count is %+v", got)
			}
		})
	}
	if _, err := parse("begin a 1\n"); err == nil {
		t.Error("half a line is accepted")
	}
}

// journal is the file in which payouts note when they begin and end.
type journal string

// note adds a line.
func (j journal) note(t *testing.T, text string) {
	t.Helper()
	f, err := os.OpenFile(string(j), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text + "\n"); err != nil {
		t.Fatal(err)
	}
}

// examine counts the lines of the journal so far.
func (j journal) examine(t *testing.T) count {
	t.Helper()
	text, err := os.ReadFile(string(j))
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return examine(all, 3)
}
