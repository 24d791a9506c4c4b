package policy_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// clean returns a valid set that uses all fields.
func clean() policy.Set {
	soon := time.Second
	mail, payout := policy.DefaultType(), policy.DefaultType()
	mail.Limits = []string{"mail", "tenant"}
	mail.Retry.Max = policy.Forever
	mail.Retry.On = map[string]policy.Rule{"busy": {Delay: &soon}, "bad": {Never: true}}
	payout.Limits = []string{"partner"}
	payout.Weight, payout.Concurrency = 2, 4
	payout.Retry.Backoff = policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{time.Second, 0}}
	return policy.Set{
		Slots: 30,
		Types: map[string]policy.Type{"mail": mail, "payout": payout},
		Limits: map[string]policy.Limit{
			"all":     {Name: "all", Max: 30},
			"payout":  {Name: "payout", Of: "all", Max: 15, Rate: policy.Rate{Count: 20, Per: time.Second, Burst: 40}},
			"partner": {Name: "partner", Of: "payout", Max: 3, Per: "payload.partner", Overrides: map[string]int{"acme": 5, "free": 0}},
			"mail":    {Name: "mail", Of: "all", Max: 10},
			"tenant":  {Name: "tenant", Max: 4, Per: "payload.tenant"},
		},
	}
}

func TestNothingIsWrongWithACleanSet(t *testing.T) {
	for name, s := range map[string]policy.Set{
		"full": clean(), "empty": {}, "defaults": {Types: map[string]policy.Type{"t": policy.DefaultType()}},
	} {
		if got := s.Check(); len(got) != 0 {
			t.Errorf("the %s set has problems: %v", name, got)
		}
	}
}

// edit changes the type "mail" of a set.
func edit(change func(*policy.Type)) func(*policy.Set) {
	return func(s *policy.Set) {
		t := s.Types["mail"]
		change(&t)
		s.Types["mail"] = t
	}
}

// limit changes or adds one limit of a set.
func limit(name string, change func(*policy.Limit)) func(*policy.Set) {
	return func(s *policy.Set) {
		l := s.Limits[name]
		l.Name = name
		change(&l)
		s.Limits[name] = l
	}
}

func TestEveryProblemIsFoundOnceAndWhereItIs(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	late := -time.Second
	for name, c := range map[string]struct {
		spoil func(*policy.Set)
		where string // the path
		says  string // part of the text
	}{
		"slots":       {func(s *policy.Set) { s.Slots = -1 }, "node.slots", "0 (no limit) or more"},
		"priority":    {edit(func(t *policy.Type) { t.Priority = 10 }), "types.mail.priority", "0 (sooner) to 9 (later)"},
		"ageing":      {edit(func(t *policy.Type) { t.Ageing = time.Millisecond - 1 }), "types.mail.ageing", "1ms to 365d"},
		"long ageing": {edit(func(t *policy.Type) { t.Ageing = policy.LongestAgeing + 1 }), "types.mail.ageing", "1ms to 365d"},
		"past ageing": {edit(func(t *policy.Type) { t.Ageing = late }), "types.mail.ageing", "1ms to 365d"},
		"place":       {edit(func(t *policy.Type) { t.Unique.By = []string{"key", "payload.a.b", "headers.x", "payload"} }), "types.mail.unique.by.3", "payload.NAME"},
		"late key":    {edit(func(t *policy.Type) { t.Unique.By = []string{"ordering_key", "key"} }), "types.mail.unique.by.1", "comes first"},
		"conflict":    {edit(func(t *policy.Type) { t.Unique.OnConflict = 9 }), "types.mail.unique.on_conflict", "keep, reject, replace, debounce or throttle"},
		"no window":   {edit(func(t *policy.Type) { t.Unique.OnConflict = policy.ThrottleNew }), "types.mail.unique.on_conflict", "throttle needs window"},
		"a window":    {edit(func(t *policy.Type) { t.Unique.Window = time.Hour }), "types.mail.unique.window", "no effect with on_conflict keep"},
		"back":        {edit(func(t *policy.Type) { t.Unique.OnConflict, t.Unique.Window = policy.ThrottleNew, -1 }), "types.mail.unique.window", "more than 0"},
		"relaxed":     {edit(func(t *policy.Type) { t.Relaxed, t.Delivery = true, policy.AtMostOnce }), "types.mail.relaxed", "at_most_once"},
		"concurrency": {edit(func(t *policy.Type) { t.Concurrency = -1 }), "types.mail.concurrency", "or more"},
		"weight":      {edit(func(t *policy.Type) { t.Weight = 0 }), "types.mail.weight", "1 or more"},
		"late":        {edit(func(t *policy.Type) { t.MaxLateness = -1 }), "types.mail.max_lateness", "0 (no limit)"},
		"remember":    {edit(func(t *policy.Type) { t.Unique.Remember = -1 }), "types.mail.unique.remember", "0 (as long as the task is kept)"},
		"result":      {edit(func(t *policy.Type) { t.MaxResult = -1 }), "types.mail.max_result", "0 (1048576 bytes)"},
		"big result":  {edit(func(t *policy.Type) { t.MaxResult = policy.LargestResult + 1 }), "types.mail.max_result", "67108864"},
		"payload":     {edit(func(t *policy.Type) { t.MaxPayload = -1 }), "types.mail.max_payload", "0 or more"},
		"weight above concurrency": {
			edit(func(t *policy.Type) { t.Weight, t.Concurrency = 3, 2 }), "types.mail.weight", "concurrency of 2",
		},
		"weight above slots": {
			func(s *policy.Set) {
				s.Slots = 3
				edit(func(t *policy.Type) { t.Weight = 4 })(s)
			}, "types.mail.weight", "3 slots",
		},
		"weight above a limit": {
			edit(func(t *policy.Type) { t.Weight = 5 }), "types.mail.weight", `limit "tenant" of 4`,
		},
		"weight above a limit further up": {
			func(s *policy.Set) {
				limit("all", func(l *policy.Limit) { l.Max = 2 })(s)
				limit("mail", func(l *policy.Limit) { l.Max = 0 })(s)
				edit(func(t *policy.Type) { t.Weight, t.Limits = 3, []string{"mail"} })(s)
			}, "types.mail.weight", `limit "all" of 2`,
		},
		"unknown limit":        {edit(func(t *policy.Type) { t.Limits = []string{"mail", "nope"} }), "types.mail.limits.1", `no limit "nope"`},
		"limit named twice":    {edit(func(t *policy.Type) { t.Limits = []string{"mail", "tenant", "mail"} }), "types.mail.limits.2", "twice"},
		"limit counts already": {edit(func(t *policy.Type) { t.Limits = []string{"mail", "all"} }), "types.mail.limits.1", `through "mail"`},
		"two that cut across share a limit": {
			func(s *policy.Set) {
				limit("region", func(l *policy.Limit) { l.Of = "tenant" })(s)
				edit(func(t *policy.Type) { t.Limits = []string{"mail", "tenant", "region"} })(s)
			}, "types.mail.limits.2", `through "tenant"`,
		},
		"label without a name":            {edit(func(t *policy.Type) { t.Nodes = policy.Nodes{"": {"eu"}} }), "types.mail.nodes", "needs a name"},
		"label without values":            {edit(func(t *policy.Type) { t.Nodes = policy.Nodes{"zone": nil} }), "types.mail.nodes.zone", "at least one"},
		"label without value":             {edit(func(t *policy.Type) { t.Nodes = policy.Nodes{"zone": {"eu", ""}} }), "types.mail.nodes.zone.1", "is empty"},
		"timeout run":                     {edit(func(t *policy.Type) { t.Timeout.Run = late }), "types.mail.timeout.run", "negative"},
		"timeout grace":                   {edit(func(t *policy.Type) { t.Timeout.Grace = late }), "types.mail.timeout.grace", "negative"},
		"timeout queue":                   {edit(func(t *policy.Type) { t.Timeout.Queue = late }), "types.mail.timeout.queue", "negative"},
		"timeout total":                   {edit(func(t *policy.Type) { t.Timeout.Total = late }), "types.mail.timeout.total", "negative"},
		"no attempt":                      {edit(func(t *policy.Type) { t.Retry.Max = 0 }), "types.mail.retry.max", "1 (no second attempt) or more"},
		"attempts below none":             {edit(func(t *policy.Type) { t.Retry.Max = -2 }), "types.mail.retry.max", "or forever"},
		"factor":                          {edit(func(t *policy.Type) { t.Retry.Backoff.Factor = 0.5 }), "types.mail.retry.backoff.factor", "1 or more"},
		"factor that is none":             {edit(func(t *policy.Type) { t.Retry.Backoff.Factor = nan }), "types.mail.retry.backoff.factor", "1 or more"},
		"endless factor":                  {edit(func(t *policy.Type) { t.Retry.Backoff.Factor = inf }), "types.mail.retry.backoff.factor", "1 or more"},
		"jitter":                          {edit(func(t *policy.Type) { t.Retry.Backoff.Jitter = 1.1 }), "types.mail.retry.backoff.jitter", "0 to 1"},
		"negative jitter":                 {edit(func(t *policy.Type) { t.Retry.Backoff.Jitter = -0.1 }), "types.mail.retry.backoff.jitter", "0 to 1"},
		"jitter that is none":             {edit(func(t *policy.Type) { t.Retry.Backoff.Jitter = nan }), "types.mail.retry.backoff.jitter", "0 to 1"},
		"negative backoff":                {edit(func(t *policy.Type) { t.Retry.Backoff.Initial = late }), "types.mail.retry.backoff", "negative"},
		"a first delay above the longest": {edit(func(t *policy.Type) { t.Retry.Backoff.Initial = 2 * time.Hour }), "types.mail.retry.backoff.max", "1h0m0s is shorter than the first delay, 2h0m0s"},
		"no delays":                       {edit(func(t *policy.Type) { t.Retry.Backoff = policy.Backoff{Kind: policy.Fixed} }), "types.mail.retry.backoff.delays", "at least one"},
		"negative delay": {
			edit(func(t *policy.Type) {
				t.Retry.Backoff = policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{1, late}}
			}), "types.mail.retry.backoff.delays.1", "negative",
		},
		"negative delay of a class": {
			edit(func(t *policy.Type) { t.Retry.On = map[string]policy.Rule{"busy": {Delay: &late}} }), "types.mail.retry.on.busy", "negative",
		},
		"limit max":         {limit("mail", func(l *policy.Limit) { l.Max = -1 }), "limits.mail.max", "or more"},
		"limit of nothing":  {limit("mail", func(l *policy.Limit) { l.Of = "nope" }), "limits.mail.of", `no limit "nope"`},
		"limit of itself":   {limit("mail", func(l *policy.Limit) { l.Of = "mail" }), "limits.mail.of", "mail of mail"},
		"circle of two":     {limit("all", func(l *policy.Limit) { l.Of = "mail" }), "limits.all.of", "all of mail of all"},
		"rate without time": {limit("mail", func(l *policy.Limit) { l.Rate = policy.Rate{Count: 2} }), "limits.mail.rate", "20/1s"},
		"negative rate":     {limit("mail", func(l *policy.Limit) { l.Rate = policy.Rate{Count: -2, Per: 1} }), "limits.mail.rate", "positive"},
		"negative burst":    {limit("mail", func(l *policy.Limit) { l.Rate = policy.Rate{Count: 2, Per: 1, Burst: -1} }), "limits.mail.rate", "positive"},
		"overrides of nothing": {
			limit("mail", func(l *policy.Limit) { l.Overrides = map[string]int{"a": 1} }), "limits.mail.overrides", "`per`",
		},
		"negative override": {
			limit("tenant", func(l *policy.Limit) { l.Overrides = map[string]int{"a": -1} }), "limits.tenant.overrides.a", "or more",
		},
		"pattern with a * in the middle": {
			limit("tenant", func(l *policy.Limit) { l.Overrides = map[string]int{"a*b": 1} }), "limits.tenant.overrides.a*b", "before its end",
		},
		"pattern with two *": {
			limit("tenant", func(l *policy.Limit) { l.Overrides = map[string]int{"a**": 1} }), "limits.tenant.overrides.a**", "before its end",
		},
		"pattern that matches everything": {
			limit("tenant", func(l *policy.Limit) { l.Overrides = map[string]int{"*": 1} }), "limits.tenant.overrides.*", "write max",
		},
		"fair without values": {limit("mail", func(l *policy.Limit) { l.Fair = true }), "limits.mail.fair", "`per`"},
		"shares of no fair limit": {
			limit("partner", func(l *policy.Limit) { l.Shares = map[string]int{"a": 2} }), "limits.partner.shares", "`fair: true`",
		},
		"share of nothing": {
			limit("partner", func(l *policy.Limit) { l.Fair, l.Shares = true, map[string]int{"a": 0} }), "limits.partner.shares.a", "1 to 1000",
		},
		"share that is too large": {
			limit("partner", func(l *policy.Limit) { l.Fair, l.Shares = true, map[string]int{"a": 1001} }), "limits.partner.shares.a", "1 to 1000",
		},
		"share of everything": {
			limit("partner", func(l *policy.Limit) { l.Fair, l.Shares = true, map[string]int{"*": 2} }), "limits.partner.shares.*", "relative",
		},
		"share of a pattern with a * in the middle": {
			limit("partner", func(l *policy.Limit) { l.Fair, l.Shares = true, map[string]int{"a*b": 2} }), "limits.partner.shares.a*b", "before its end",
		},
		"fair limit that cuts across": {limit("tenant", func(l *policy.Limit) { l.Fair = true }), "types.mail.limits.1", "must come first"},
		"limit without a name":        {limit("", func(l *policy.Limit) { l.Max = 1 }), "limits", "needs a name"},
		"limit without a name under another": {
			limit("", func(l *policy.Limit) { l.Of = "mail" }), "limits", "needs a name",
		},
		"type without a name": {func(s *policy.Set) { s.Types[""] = policy.DefaultType() }, "types", "needs a name"},
	} {
		t.Run(name, func(t *testing.T) {
			s := clean()
			c.spoil(&s)
			got := s.Check()
			if len(got) != 1 {
				t.Fatalf("%d problems were found, want 1: %v", len(got), got)
			}
			if where := strings.Join(got[0].Path, "."); where != c.where || !strings.Contains(got[0].Text, c.says) {
				t.Errorf("the problem is %q, want %s and %q", got[0], c.where, c.says)
			}
		})
	}
}

func TestSeveralProblemsAreAllFoundInAStableOrder(t *testing.T) {
	s := clean()
	s.Slots = -1
	edit(func(t *policy.Type) { t.Priority, t.Weight, t.Retry.Max = 12, 0, 0 })(&s)
	limit("tenant", func(l *policy.Limit) { l.Max, l.Rate = -1, policy.Rate{Count: -1, Per: -1} })(&s)
	var want []string
	for range 20 {
		var got []string
		for _, p := range s.Check() {
			got = append(got, p.String())
		}
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
	if len(want) != 7 {
		t.Errorf("%d problems were found, want 7:\n%s", len(want), strings.Join(want, "\n"))
	}
}

// TestAnyTangleOfLimitsIsChecked draws graphs with cycles, unknown parents and shared parents.
func TestAnyTangleOfLimitsIsChecked(t *testing.T) {
	names := []string{"a", "b", "c", "d", "missing"}
	rapid.Check(t, func(t *rapid.T) {
		s := policy.Set{Types: map[string]policy.Type{}, Limits: map[string]policy.Limit{}}
		for _, name := range names[:4] {
			of := rapid.SampledFrom(append([]string{""}, names...)).Draw(t, "of")
			s.Limits[name] = policy.Limit{Name: name, Of: of, Max: rapid.IntRange(0, 3).Draw(t, "max")}
		}
		typ := policy.DefaultType()
		typ.Weight = rapid.IntRange(1, 3).Draw(t, "weight")
		typ.Limits = rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "limits")
		s.Types["t"] = typ

		found := s.Check()
		seen := map[string]bool{}
		for _, p := range found {
			if seen[p.String()] {
				t.Fatalf("found twice: %v", p)
			}
			seen[p.String()] = true
		}
		if circles, want := countText(found, "circle"), countCircles(s); circles != want {
			t.Fatalf("%d circles were found, want %d: %v", circles, want, found)
		}
		if tooHeavy(s, typ) != (countText(found, "never fits") > 0) {
			t.Fatalf("weight %d: %v", typ.Weight, found)
		}
	})
}

func countText(ps []policy.Problem, part string) (n int) {
	for _, p := range ps {
		if strings.Contains(p.Text, part) {
			n++
		}
	}
	return n
}

// countCircles follows the parents of every limit and counts the cycles.
func countCircles(s policy.Set) int {
	ends := map[string]bool{}
	for name := range s.Limits {
		for range len(s.Limits) {
			name = s.Limits[name].Of
		}
		if name == "" || s.Limits[name].Name == "" {
			continue
		}
		circle := []string{name}
		for up := s.Limits[name].Of; up != name; up = s.Limits[up].Of {
			circle = append(circle, up)
		}
		slices.Sort(circle)
		ends[strings.Join(circle, " ")] = true
	}
	return len(ends)
}

func tooHeavy(s policy.Set, t policy.Type) bool {
	for _, name := range t.Limits {
		for range len(s.Limits) {
			if l := s.Limits[name]; l.Max > 0 && t.Weight > l.Max {
				return true
			}
			name = s.Limits[name].Of
		}
	}
	return false
}

func TestAValuesOverrideComesBeforeTheMaximum(t *testing.T) {
	l := clean().Limits["partner"]
	for value, want := range map[string]int{"acme": 5, "free": 0, "other": 3, "": 3} {
		if got := l.MaxFor(value); got != want {
			t.Errorf("the maximum for %q is %d, want %d", value, got, want)
		}
	}
	if !(policy.Rate{Per: time.Second}).IsZero() || (policy.Rate{Count: 1}).IsZero() {
		t.Error("a rate is zero if it counts nothing")
	}
}

func TestAnExactOverrideComesBeforePatternsAndALongerPatternBeforeAShorterOne(t *testing.T) {
	l := policy.Limit{Max: 1, Overrides: map[string]int{"acme-*": 2, "acme-eu-*": 3, "acme-eu-1": 4, "acme": 5, "ü*": 0, "": 6}}
	for value, want := range map[string]int{
		"acme": 5, "acme-": 2, "acme-us": 2, "acme-eu": 2, "acme-eu-": 3, "acme-eu-2": 3, "acme-eu-1": 4, "acme-eu-11": 3,
		"acm": 1, "x-acme-eu-1": 1, "über": 0, "": 6, "acme-*": 2, "acme-eu-*": 3, "*": 1,
	} {
		if got := l.MaxFor(value); got != want {
			t.Errorf("the maximum for %q is %d, want %d", value, got, want)
		}
	}
}

func TestSharesAreFoundLikeOverrides(t *testing.T) {
	l := policy.Limit{Shares: map[string]int{"acme": 5, "acme-*": 2}}
	for value, want := range map[string]int{"acme": 5, "acme-eu": 2, "other": 1, "": 1} {
		if got := l.ShareFor(value); got != want {
			t.Errorf("the share of %q is %d, want %d", value, got, want)
		}
	}
}

func TestTheLargestWeightIsThatOfTheTypesThatCountForALimit(t *testing.T) {
	s := clean()
	for limit, want := range map[string]int{"partner": 2, "payout": 2, "all": 2, "mail": 1, "tenant": 1, "unknown": 1} {
		if got := s.LargestWeight(limit); got != want {
			t.Errorf("the largest weight under %q is %d, want %d", limit, got, want)
		}
	}
}

func TestTheMaximumIsThatOfTheNaiveSearch(t *testing.T) {
	text := rapid.StringMatching(`[ab*]{0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		l := policy.Limit{Max: -1, Overrides: rapid.MapOf(text.Filter(func(s string) bool { return policy.CheckOverride(s) == nil }), rapid.IntRange(0, 9)).Draw(t, "overrides")}
		value := text.Draw(t, "value")
		want, longest := l.Max, -1
		for key, n := range l.Overrides {
			prefix, isPattern := strings.CutSuffix(key, "*")
			switch {
			case !isPattern && key == value:
				want, longest = n, math.MaxInt
			case isPattern && len(prefix) > longest && strings.HasPrefix(value, prefix):
				want, longest = n, len(prefix)
			}
		}
		if got := l.MaxFor(value); got != want {
			t.Fatalf("the maximum for %q is %d, want %d", value, got, want)
		}
	})
}

func TestAChainLeadsFromALimitToItsRoot(t *testing.T) {
	s := clean()
	s.Limits["loose"] = policy.Limit{Name: "loose", Of: "nope"}
	s.Limits["a"] = policy.Limit{Name: "a", Of: "b"}
	s.Limits["b"] = policy.Limit{Name: "b", Of: "a"}
	for name, want := range map[string][]string{
		"partner": {"partner", "payout", "all"}, "all": {"all"}, "nope": nil, "": nil,
		"loose": {"loose"}, "a": {"a", "b"}, "b": {"b", "a"},
	} {
		var got []string
		for _, l := range s.Chain(name) {
			got = append(got, l.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the chain of %q is %q, want %q", name, got, want)
		}
	}
}

func TestTheKeyedLimitsOfATypeComeInTheOrderOfItsChains(t *testing.T) {
	s := clean()
	limit("payout", func(l *policy.Limit) { l.Per = "payload.country" })(&s)
	typ := policy.DefaultType()
	typ.Limits = []string{"partner", "mail", "tenant"}
	var got []string
	for _, l := range s.Keyed(typ) {
		got = append(got, l.Name)
	}
	if want := []string{"partner", "payout", "tenant"}; !slices.Equal(got, want) {
		t.Errorf("the keyed limits are %q, want %q", got, want)
	}
	if typ.Limits = nil; s.Keyed(typ) != nil {
		t.Error("a type without limits has keyed ones")
	}
}

func TestRetentionIsOfTheFinalStates(t *testing.T) {
	r := policy.Retention{Done: 1, Failed: 2, Cancelled: 3}
	for _, s := range task.States() {
		want := map[task.State]time.Duration{task.Done: 1, task.Failed: 2, task.Cancelled: 3}[s]
		if want == 0 {
			want = policy.Forever
		}
		if got := r.Of(s); got != want {
			t.Errorf("a task that is %v is kept for %v, want %v", s, got, want)
		}
	}
}

func TestADeliveryIsNamedAsInTheConfiguration(t *testing.T) {
	for d, want := range map[policy.Delivery]string{policy.AtLeastOnce: "at_least_once", policy.AtMostOnce: "at_most_once"} {
		if d.String() != want {
			t.Errorf("delivery %s is called %q, want %q", strconv.Itoa(int(d)), d, want)
		}
	}
}
