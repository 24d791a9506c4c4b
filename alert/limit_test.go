package alert

import (
	"testing"
	"time"
)

func TestARuleAndASilenceOfALimitAreAboutItsValues(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for pattern, want := range map[string]bool{"": true, "partner": true, "partner/acme": true, "partner/*": true, "part*": true, "partner/other": false, "acme": false, "partner/ac": false} {
		m := New(Config{Rules: []Rule{{Name: "full", When: LimitFull}}})
		if pattern != "" {
			m.rules["full"].Match = []string{pattern}
		}
		m.Look(Look{At: at, Facts: []Fact{{Kind: LimitFull, Subject: "partner/acme", Node: "a", Value: 3}}})
		if got := len(m.Alerts()) == 1; got != want {
			t.Errorf("a rule about %q takes it: %v", pattern, got)
		}
		s := Silence{Labels: map[string]string{"limit": pattern}, Until: at.Add(time.Hour)}
		a := Alert{Key: Key{Rule: "full", Subject: "partner/acme", Node: "a"}, When: LimitFull}
		if got := s.Covers(&a, at); got != want && pattern != "" {
			t.Errorf("a silence of %q covers it: %v", pattern, got)
		}
	}
	m := New(Config{Rules: []Rule{{Name: "errors", When: Errors, Match: []string{"a"}}}})
	m.Look(Look{At: at, Facts: []Fact{{Kind: Errors, Subject: "a/b", Value: 3}}})
	if len(m.Alerts()) != 0 {
		t.Error("the name of a type is cut")
	}
}
