package alert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTargetsKnowInTheEndWhatFires plays random lives: facts come and go, targets refuse or answer too late to be
// heard, and the node crashes. When everything has calmed down, each target must know exactly what
// fires, by the notifications that it accepted, in their order.
func TestTargetsKnowInTheEndWhatFires(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{t: t, now: beginning, known: map[string]map[string]bool{"a": {}, "b": {}}, alerts: map[string]int{}}
		l.config = Config{Rules: []Rule{
			{Name: "errors", When: Errors, AtLeast: 1, GroupWait: l.duration("wait"), Interval: l.duration("interval"), Repeat: l.duration("repeat"), Targets: []string{"a", "b"}},
			{Name: "disk", When: DiskFull, AtLeast: 90, For: l.duration("for"), Targets: []string{"b"}},
		}, Targets: []Target{{Name: "a"}, {Name: "b", Rate: Rate{rapid.IntRange(0, 3).Draw(t, "rate"), time.Minute}}}}
		l.start()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			l.act()
			l.step()
		}
		l.calmDown()
	})
}

type life struct {
	t       *rapid.T
	config  Config
	machine *Machine
	stored  []byte
	now     time.Time
	facts   []Fact
	sending []Notification
	known   map[string]map[string]bool // by target: the firing alerts, by its notifications
	alerts  map[string]int             // by ID of a notification: how many alerts it had last
}

func (l *life) duration(what string) time.Duration {
	return time.Duration(rapid.IntRange(0, 3).Draw(l.t, what)) * 20 * time.Second
}

func (l *life) start() {
	l.machine, l.sending = New(l.config), nil
	if l.stored != nil {
		var s State
		if err := json.Unmarshal(l.stored, &s); err != nil {
			l.t.Fatal(err)
		}
		l.machine.Restore(s)
	}
}

func (l *life) act() {
	switch rapid.IntRange(0, 9).Draw(l.t, "act") {
	case 0, 1, 2, 3:
		l.facts = nil
		for _, typ := range []string{"mail", "pay"} {
			l.facts = append(l.facts, Fact{Kind: Errors, Subject: typ, Value: float64(rapid.IntRange(0, 2).Draw(l.t, typ))})
		}
		l.facts = append(l.facts, Fact{Kind: DiskFull, Subject: "/", Node: "n", Value: float64(rapid.IntRange(85, 95).Draw(l.t, "disk"))})
		l.look()
	case 4, 5:
		l.now = l.now.Add(l.duration("advance"))
	case 6:
		l.start()
	default:
		if len(l.sending) > 0 {
			l.answer(rapid.SampledFrom([]string{"accepted", "refused", "lost"}).Draw(l.t, "answer"))
		}
	}
}

func (l *life) look() { l.machine.Look(Look{At: l.now, Whole: Kinds(), Facts: l.facts}) }

// answer answers the first notification. If the answer is lost, the target has accepted it.
func (l *life) answer(how string) {
	n := l.sending[0]
	l.sending = l.sending[1:]
	if how != "refused" {
		for _, i := range n.Alerts {
			l.known[n.Target][fmt.Sprint(n.Rule, i.Labels)] = i.Status == Firing
		}
	}
	if how == "accepted" {
		l.machine.Sent(n.ID)
	} else {
		l.machine.Failed(l.now, n.ID)
	}
}

func (l *life) step() {
	l.machine.Tick(l.now)
	if s, changed := l.machine.Save(); changed {
		stored, err := json.Marshal(s)
		if err != nil {
			l.t.Fatal(err)
		}
		l.stored = stored
	}
	for _, n := range l.machine.Next(l.now) {
		if last, ok := l.alerts[n.ID]; ok && len(n.Alerts) > last {
			l.t.Fatalf("a notification that was sent has more alerts when it is sent again: %+v", n)
		}
		l.alerts[n.ID] = len(n.Alerts)
		l.sending = append(l.sending, n)
	}
}

// calmDown lets every target accept, until there is nothing new to tell.
func (l *life) calmDown() {
	for range 100 {
		l.look()
		l.step()
		for len(l.sending) > 0 {
			l.answer("accepted")
			l.step()
		}
		l.now = l.now.Add(20 * time.Second)
	}
	for target, known := range l.known {
		maps.DeleteFunc(known, func(_ string, firing bool) bool { return !firing })
		fires := map[string]bool{}
		for _, a := range l.machine.Alerts() {
			if a.Status == Firing && slices.Contains(l.machine.rules[a.Rule].Targets, target) {
				fires[fmt.Sprint(a.Rule, a.Labels())] = true
			}
		}
		if !maps.Equal(known, fires) {
			l.t.Fatalf("target %s got that %v fires, and %v does", target, known, fires)
		}
	}
}
