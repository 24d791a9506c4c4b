package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
)

// limited has limits of all kinds. Tasks of the type work weigh 2.
func limited() policy.Set {
	set := one("work", func(p *policy.Type) { p.Limits, p.Weight = []string{"partner", "region"}, 2 })
	light := policy.DefaultType()
	light.Limits = []string{"mail"}
	set.Types["light"] = light
	set.Limits = map[string]policy.Limit{
		"all":     {Name: "all", Max: 30},
		"partner": {Name: "partner", Of: "all", Max: 4, Per: "payload.partner", Overrides: map[string]int{"acme": 6}},
		"region":  {Name: "region", Max: 20, Per: "payload.region"},
		"mail":    {Name: "mail", Of: "all", Max: 10, Rate: policy.Rate{Count: 20, Per: time.Second}},
	}
	return set
}

func settings(t *testing.T, e *engine.Engine) []engine.LimitSetting {
	t.Helper()
	all, err := e.LimitSettings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func setLimit(t *testing.T, e *engine.Engine, s engine.LimitSetting) engine.LimitSetting {
	t.Helper()
	now, err := e.SetLimit(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func TestASettingOfALimitIsKeptWithItsOriginAndOverRestarts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, limited(), nil)
		n.close()
		n.config.Name = "node 1"
		n.open()
		most, rate := 3, policy.Rate{Count: 5, Per: 90 * time.Second, Burst: 2}
		first := setLimit(t, n.Engine, engine.LimitSetting{Limit: "partner", Value: "a/b %c", Max: &most, By: "ann"})
		want := engine.LimitSetting{Limit: "partner", Value: "a/b %c", Max: &most, By: "ann", Node: "node 1", At: time.Now().UTC(), Version: first.Version}
		if diff := cmp.Diff(want, first); diff != "" || first.Version == 0 {
			t.Errorf("version %d: %s", first.Version, diff)
		}
		second := setLimit(t, n.Engine, engine.LimitSetting{Limit: "all", Rate: &rate, Paused: true, Version: 77, Node: "x", Problem: "y"})
		third := setLimit(t, n.Engine, engine.LimitSetting{Limit: "partner", Value: "acme-*", Rate: &policy.Rate{}})
		all := []engine.LimitSetting{second, first, third}
		if diff := cmp.Diff(all, settings(t, n.Engine)); diff != "" {
			t.Error(diff)
		}
		n.close()
		n.open()
		if diff := cmp.Diff(all, settings(t, n.Engine)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestASettingIsReplacedAndUnset(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, limited(), nil)
		ctx := t.Context()
		most, more := 3, 5
		zero := uint64(0)
		first, err := n.SetLimit(ctx, engine.LimitSetting{Limit: "all", Max: &most, Paused: true}, &zero)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.SetLimit(ctx, engine.LimitSetting{Limit: "all", Max: &more}, &zero); !errors.Is(err, engine.ErrStale) {
			t.Errorf("a setting that was there was set for the first time: %v", err)
		}
		second, err := n.SetLimit(ctx, engine.LimitSetting{Limit: "all", Max: &more}, &first.Version)
		if err != nil || second.Paused || second.Version <= first.Version {
			t.Errorf("got %+v, %v", second, err)
		}
		if err := n.UnsetLimit(ctx, "all", "", &first.Version); !errors.Is(err, engine.ErrStale) || !strings.Contains(err.Error(), fmt.Sprint(second.Version)) {
			t.Errorf("an old version was unset: %v", err)
		}
		if err := n.UnsetLimit(ctx, "all", "", &second.Version); err != nil {
			t.Error(err)
		}
		for _, err := range []error{n.UnsetLimit(ctx, "all", "", nil), n.UnsetLimit(ctx, "nothing", "x", &zero)} {
			if !errors.Is(err, engine.ErrNotSet) {
				t.Errorf("got %v", err)
			}
		}
		if err := n.UnsetLimit(ctx, "all", "", &second.Version); !errors.Is(err, engine.ErrStale) {
			t.Errorf("got %v", err)
		}
		third, err := n.SetLimit(ctx, engine.LimitSetting{Limit: "all", Paused: true}, &zero)
		if err != nil || third.Version <= second.Version+1 {
			t.Errorf("got %+v, %v after version %d", third, err, second.Version)
		}
		if none := setLimit(t, n.Engine, engine.LimitSetting{Limit: "all"}); none.Version != 0 || len(settings(t, n.Engine)) != 0 {
			t.Errorf("a setting that changes nothing is kept: %+v", none)
		}
		if _, err := n.SetLimit(ctx, engine.LimitSetting{Limit: "all"}, nil); !errors.Is(err, engine.ErrNotSet) {
			t.Errorf("got %v", err)
		}
	})
}

func TestASettingThatCannotHoldIsRefusedWithWhatIsAllowed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, limited(), nil)
		num := func(i int) *int { return &i }
		for says, s := range map[string]engine.LimitSetting{
			`"partners"; did you mean partner?`:                  {Limit: "partners", Max: num(1)},
			"use all, mail, partner or region":                   {Limit: "something else", Max: num(1)},
			"the configuration only":                             {Limit: "types.work.concurrency", Max: num(1)},
			"it has no `per`":                                    {Limit: "all", Value: "acme", Max: num(1)},
			"max is -1; want 0 (no limit) to":                    {Limit: "all", Max: num(-1)},
			"max is 2147483648; want 0 (no limit) to":            {Limit: "all", Max: num(1 << 31)},
			"the least is 2, and to start none, pause the limit": {Limit: "all", Max: num(1)},
			"tasks of type work weigh 2":                         {Limit: "partner", Value: "acme", Max: num(1)},
			"the rate has -1 starts":                             {Limit: "all", Rate: &policy.Rate{Count: -1, Per: 1}},
			"the rate needs a time, such as 20/1s":               {Limit: "all", Rate: &policy.Rate{Count: 1}},
			"the burst of the rate is -1":                        {Limit: "all", Rate: &policy.Rate{Count: 1, Per: 1, Burst: -1}},
			"want the zero rate for no limit":                    {Limit: "all", Rate: &policy.Rate{Per: time.Second}},
			"has 1001 bytes, of 1000 allowed":                    {Limit: "partner", Value: strings.Repeat("x", 1001), Max: num(4)},
			"UTF-8":                                              {Limit: "partner", Value: "\xff", Max: num(4)},
			"without NUL":                                        {Limit: "partner", Value: "a\x00", Max: num(4)},
			"has a * before its end":                             {Limit: "partner", Value: "a*b", Max: num(4)},
			"has a * before its end; ":                           {Limit: "partner", Value: "a**", Max: num(4)},
			"stands for every value":                             {Limit: "partner", Value: "*", Max: num(4)},
			"at most 200":                                        {Limit: "all", Paused: true, By: strings.Repeat("x", 201)},
		} {
			_, err := n.SetLimit(t.Context(), s, nil)
			if !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), says) {
				t.Errorf("%+v: %v, want %q", s, err, says)
			}
		}
		if all := settings(t, n.Engine); len(all) != 0 {
			t.Errorf("kept: %+v", all)
		}
		for _, s := range []engine.LimitSetting{
			{Limit: "all", Max: num(2)},
			{Limit: "all", Max: num(0)},
			{Limit: "mail", Max: num(1)},
			{Limit: "partner", Value: "ä b/c", Max: num(2)},
			{Limit: "all", Rate: &policy.Rate{Count: 1, Per: time.Hour}},
		} {
			setLimit(t, n.Engine, s)
		}
	})
}

func TestASettingOfALimitThatIsNotConfiguredIsKeptAndSaidToBe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, limited(), nil)
		most := 3
		setLimit(t, n.Engine, engine.LimitSetting{Limit: "mail", Max: &most})
		setLimit(t, n.Engine, engine.LimitSetting{Limit: "region", Value: "eu", Max: &most})
		n.close()
		set := limited()
		heavy := set.Types["work"]
		heavy.Weight = 4
		set.Types = map[string]policy.Type{"work": heavy}
		delete(set.Limits, "mail")
		n.config.Policies = set
		n.open()
		all := settings(t, n.Engine)
		if len(all) != 2 || !strings.Contains(all[0].Problem, "there is no such limit") || !strings.Contains(all[1].Problem, "the least is 4") {
			t.Errorf("got %+v", all)
		}
		limits, err := n.Limits(t.Context())
		var names []string
		for _, l := range limits {
			names = append(names, fmt.Sprint(l.Name, " ", l.Value, " ", l.Configured))
		}
		want := []string{"all  true", "mail  false", "partner  true", "region  true", "region eu true"}
		if diff := cmp.Diff(want, names); diff != "" || err != nil {
			t.Errorf("%s, %v", diff, err)
		}
		if one, err := n.Limit(t.Context(), "mail", ""); err != nil || one.Configured || one.Setting() == nil {
			t.Errorf("got %+v, %v", one, err)
		}
		if err := n.UnsetLimit(t.Context(), "mail", "", nil); err != nil {
			t.Error(err)
		}
		for name, value := range map[string]string{"mail": "", "all": "x"} {
			if _, err := n.Limit(t.Context(), name, value); !errors.Is(err, engine.ErrInvalid) || errors.Is(err, engine.ErrNoLimit) != (value == "") {
				t.Errorf("%s of %s: %v", value, name, err)
			}
			if _, err := n.WhyLimit(t.Context(), name, value); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%s of %s: %v", value, name, err)
			}
		}
	})
}

func TestChangesOfLimitsAreWatched(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, limited(), nil)
		var heard [][]engine.LimitSetting // read after Wait only
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() {
			ended <- n.WatchLimits(ctx, func(all []engine.LimitSetting) { heard = append(heard, all) })
		}()
		synctest.Wait()
		setLimit(t, n.Engine, engine.LimitSetting{Limit: "mail", Paused: true})
		synctest.Wait()
		if err := n.UnsetLimit(t.Context(), "mail", "", nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		var counts []int
		for _, all := range heard {
			counts = append(counts, len(all))
		}
		if diff := cmp.Diff([]int{0, 1, 0}, counts); diff != "" {
			t.Error(diff)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		go func() { ended <- n.WatchLimits(t.Context(), func([]engine.LimitSetting) {}) }()
		synctest.Wait()
		n.close()
		if err := <-ended; !errors.Is(err, engine.ErrClosed) {
			t.Errorf("got %v", err)
		}
		if _, err := n.SetLimit(t.Context(), engine.LimitSetting{Limit: "mail", Paused: true}, nil); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}
