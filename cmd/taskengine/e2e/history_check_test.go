package e2e

import (
	"slices"
	"strings"
	"testing"
)

// sound returns a history in which nothing is wrong. The node a has two permits and runs two tasks, b waits.
// a stands still, is dead for the database from 2990 and stops its task after that; its task y goes on to run on b.
func sound() *history {
	return &history{
		lease: 600,
		attempts: []attempt{
			{task: "x", node: "a", version: 2, typ: "mail", begin: 1000, last: 1500},
			{task: "y", node: "a", version: 2, typ: "pay", partner: "p", begin: 1000, last: 3700},
			{task: "y", node: "b", version: 4, typ: "pay", partner: "p", begin: 3600, last: 4000},
			{task: "z", node: "b", version: 2, typ: "mail", begin: 3500, last: 3900},
		},
		changes: []change{
			{900, "partner/p", "ha", "a", 1, 1},
			{900, "total", "ha", "a", 2, 2},
			{3000, "total", "ha", "a", 0, 2},
			{3000, "total", "hb", "b", 2, 2},
			{3000, "partner/p", "ha", "a", 0, 1},
			{3100, "partner/p", "hb", "b", 1, 1},
			{5000, "total", "hb", "b", 0, 2},
		},
		deaths: map[string]int64{"ha": 2990, "hb": 5000},
		maxima: []maximum{{"total", 2, 0, never}, {"partner/p", 1, 0, never}},
		stops:  []stop{{"a", 2000, 3500}},
		rate:   pacing{100, 2},
		draws:  []draw{{800, 2}, {1000, 2}, {1100, 1}},
		tasks:  map[string]string{"x": "done", "y": "done", "z": "done"},
	}
}

func TestASoundHistoryIsSound(t *testing.T) {
	for name, change := range map[string]func(h *history){
		"as it is":            func(*history) {},
		"the machine stopped": func(h *history) { h.stops[0].node = "" },
		"a killed attempt": func(h *history) {
			h.attempts[0].last = 1000
			h.attempts = append(h.attempts, attempt{task: "x", node: "b", version: 4, typ: "mail", begin: 4100, last: 4100})
		},
		"a limit that is lowered while as many run": func(h *history) {
			h.maxima[0].until = 1600
			h.maxima = append(h.maxima, maximum{"total", 1, 1400, 2900}, maximum{"total", 2, 2900, never})
		},
		"a pause in which begins what had a permit": func(h *history) { h.pauses = []pause{{950, 2000}} },
		"a waiting holder without a member":         func(h *history) { h.changes = append(h.changes, change{5100, "total", "hc", "", 0, 2}) },
		"a pause after which something begins":      func(h *history) { h.pauses = []pause{{1000, 3500}} },
	} {
		t.Run(name, func(t *testing.T) {
			h := sound()
			change(h)
			if wrong := h.check(); len(wrong) > 0 {
				t.Errorf("it is refused:\n%s", strings.Join(wrong, "\n"))
			}
		})
	}
}

func TestAHistoryIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *history)
		says   string
	}{
		"whose task was lost":             {func(h *history) { h.tasks["w"] = "done" }, "task w is done in the end; it began: false"},
		"whose task waits for ever":       {func(h *history) { h.tasks["x"] = "submitted" }, "task x is submitted in the end"},
		"whose task has failed":           {func(h *history) { h.tasks["x"] = "error" }, "task x is error in the end"},
		"with a task of nobody":           {func(h *history) { h.attempts[0].task = "w" }, "task w ran and is not there"},
		"with a task that runs twice":     {func(h *history) { h.attempts[3].task = "y" }, "of one task at once"},
		"whose stopped attempt was alone": {func(h *history) { h.stops = nil }, "of one task at once"},
		"that grants too many permits":    {func(h *history) { h.changes[3].at, h.changes[3].held, h.changes[3].most = 3000, 3, 3 }, "makes 3 permits of total, of 2"},
		"that grants more than it has":    {func(h *history) { h.changes[1].most = 1 }, "makes 2 permits of total"},
		"that grants a permit to two":     {func(h *history) { h.changes = slices.Delete(h.changes, 2, 3) }, "makes 4 permits of total, of 2"},
		"with a begin before its permit":  {func(h *history) { h.attempts[3].begin = 2900 }, "node b runs 1 under total and has 0 permits"},
		"with a begin for which a value has no permit": {
			func(h *history) { h.attempts[3].typ, h.attempts[3].partner = "pay", "p" }, "node b runs 2 under partner/p and has 1",
		},
		"with a permit given back too early": {
			func(h *history) { h.changes[6].at = 3800 }, "node b runs 2 under total and has 0 permits",
		},
		"with an attempt after the loss": {func(h *history) { h.stops[0].until = 2800 }, "node a runs 1 under total and has 0 permits"},
		"with more than its limit":       {func(h *history) { h.maxima[0].most = 1 }, "is number 2 under total, of 1"},
		"with more than its limit for a while": {func(h *history) {
			h.maxima[0].until = 950
			h.maxima = append(h.maxima, maximum{"total", 1, 900, 1400}, maximum{"total", 2, 1400, never})
		}, "is number 2 under total, of 1"},
		"with a handler that is not stopped": {func(h *history) { h.attempts[1].last = 3900 }, "goes on after its node has lost its permits"},
		"with a begin in a pause":            {func(h *history) { h.pauses = []pause{{3000, 4000}, {800, 2000}} }, "during the pause {800 2000} 2 attempts begin"},
		"with a draw before its time":        {func(h *history) { h.draws[2].at = 1099 }, "is 1 µs too early"},
		"with a draw of too many":            {func(h *history) { h.draws[1].tokens = 3 }, "is 100 µs too early"},
		"with more starts than its rate": {func(h *history) {
			for i := range 3010 { // three nodes with two tasks and a thousand tokens each, and a burst of two
				h.attempts = append(h.attempts, attempt{task: "x", node: "a", version: uint64(i), typ: "mail", begin: 1600, last: 1600})
			}
		}, "the paced attempt at 1600 is"},
	} {
		t.Run(name, func(t *testing.T) {
			h := sound()
			c.change(h)
			if wrong := strings.Join(h.check(), "\n"); !strings.Contains(wrong, c.says) {
				t.Errorf("it does not say %q:\n%s", c.says, wrong)
			}
		})
	}
}

// Grants are not known if the coordinator does not record them. Then a node that stood still, and has noticed
// that it had been dead for the others, may have run the tasks of others, too.
func TestWhatANodeRanWhileItStoodStillIsNotCountedIfItNoticedTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *history)
		says   string // "": nothing is wrong
	}{
		"it noticed":                    {func(*history) {}, ""},
		"the machine stood still":       {func(h *history) { h.stops[0].node = "" }, ""},
		"it did not notice":             {func(h *history) { h.losses = nil }, "of one task at once"},
		"another node noticed":          {func(h *history) { h.losses[0].node = "b" }, "of one task at once"},
		"it stood still before":         {func(h *history) { h.stops[0] = stop{"a", 900, 1000} }, "of one task at once"},
		"it noticed before the attempt": {func(h *history) { h.losses[0].at = 990 }, "of one task at once"},
		"more ran than the limit":       {func(h *history) { h.maxima[0].most = 1 }, "is number 2 under total, of 1"},
		"more ran than a limit that is lowered": {func(h *history) {
			h.maxima = nil
			h.addLimits(&observed{settings: []setting{{limit: "total", most: 1, asked: 10, answered: 20}}}, "total", 2)
			h.attempts[1].typ = "mail"
			h.attempts[2].typ = "mail"
			h.attempts = append(h.attempts, attempt{task: "w", node: "b", version: 2, typ: "mail", begin: 3700, last: 3800})
		}, "is number 3 under total, of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			h := sound()
			h.isUnseen, h.changes, h.deaths, h.draws = true, nil, nil, nil
			h.losses = []loss{{"a", 3550}}
			c.change(h)
			wrong := strings.Join(h.check(), "\n")
			if !strings.Contains(wrong, c.says) || c.says == "" && wrong != "" {
				t.Errorf("want %q:\n%s", c.says, wrong)
			}
		})
	}
}

// A maximum that was lowered holds as soon as all nodes know of it and no more permits are held.
func TestAMaximumHoldsUntilAllNodesKnowTheNext(t *testing.T) {
	seen := observed{
		settings: []setting{
			{limit: "total", most: 1, version: 7, asked: 2000, answered: 2100},
			{limit: "partner", most: 5, version: 8, asked: 2000, answered: 2100},
			{limit: "partner/p", most: 3, version: 9, asked: 2200, answered: 2300},
			{limit: "partner", most: 6, version: 10, asked: 3000, answered: 3100},
		},
		knowledge: []knowledge{{2150, "a", 6}, {2200, "a", 8}, {2300, "b", 7}, {2800, "b", 10}, {3200, "a", 10}},
		lifetimes: []lifetime{{"a", 0, never}, {"b", 0, never}, {"c", 0, 2050}, {"d", 2150, 2950}, {"e", 0, 2250}},
	}
	for name, c := range map[string]struct {
		limit   string
		changes []change
		want    []maximum
	}{
		"nothing held":           {"total", nil, []maximum{{"total", 2, 0, 2300}, {"total", 1, 2000, never}}},
		"a permit given back":    {"total", []change{{900, "total", "h", "a", 2, 2}, {2500, "total", "h", "a", 1, 1}}, []maximum{{"total", 2, 0, 2500}, {"total", 1, 2000, never}}},
		"a database of before":   {"total", []change{{900, "total", "h", "a", 1, 2}, {2600, "total", "h", "a", 1, 1}}, []maximum{{"total", 2, 0, 2600}, {"total", 1, 2000, never}}},
		"never given back":       {"total", []change{{900, "total", "h", "a", 2, 2}}, []maximum{{"total", 2, 0, never}, {"total", 1, 2000, never}}},
		"a value of its own":     {"partner/p", nil, []maximum{{"partner/p", 2, 0, 2800}, {"partner/p", 5, 2000, 3200}, {"partner/p", 3, 2200, never}}},
		"a value without":        {"partner/q", nil, []maximum{{"partner/q", 2, 0, 2800}, {"partner/q", 5, 2000, 3200}, {"partner/q", 6, 3000, never}}},
		"given back before that": {"total", []change{{900, "total", "h", "a", 2, 2}, {2200, "total", "h", "a", 1, 1}}, []maximum{{"total", 2, 0, 2300}, {"total", 1, 2000, never}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history{changes: c.changes}
			h.addLimits(&seen, c.limit, 2)
			if !slices.Equal(h.maxima, c.want) {
				t.Errorf("the maxima are %v, want %v", h.maxima, c.want)
			}
		})
	}
}

func TestAPauseBeginsWhenAllNodesKnowOfIt(t *testing.T) {
	seen := observed{
		settings: []setting{
			{limit: "total", paused: true, version: 2, asked: 100, answered: 110},
			{limit: "total", most: 4, version: 3, asked: 300, answered: 310},
			{limit: "total", resumed: true, version: 4, asked: 900, answered: 910},
			{limit: "total", paused: true, version: 5, asked: 1000, answered: 1010},
			{limit: "total", resumed: true, version: 6, asked: 1020, answered: 1030},
		},
		knowledge: []knowledge{{200, "a", 2}, {1200, "a", 6}},
		lifetimes: []lifetime{{"a", 0, never}},
	}
	h := new(history)
	h.addPauses(&seen)
	if want := []pause{{200, 900}}; !slices.Equal(h.pauses, want) {
		t.Errorf("the pauses are %v, want %v", h.pauses, want)
	}
}
