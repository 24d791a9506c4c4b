package pattern

import "testing"

func TestAPatternStandsForItsNameOrForAllThatBeginWithIt(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		matches       bool
	}{
		{"stock/a", "stock/a", true},
		{"stock/a", "stock/ab", false},
		{"stock/a", "stock/", false},
		{"stock/*", "stock/", true},
		{"stock/*", "stock/a", true},
		{"stock/*", "stock", false},
		{"*", "", true},
		{"*", "a", true},
		{"", "", true},
		{"", "a", false},
		{"a*b", "a*b", true},
		{"a*b", "acb", false},
		{"a*", "a*", true},
	} {
		if Matches(c.pattern, c.name) != c.matches {
			t.Errorf("whether %q stands for %q is %v", c.pattern, c.name, !c.matches)
		}
	}
	if AnyMatches(nil, "a") || AnyMatches([]string{"b", "c*"}, "a") || !AnyMatches([]string{"b", "a*"}, "a") {
		t.Error("a list matches another name")
	}
}
