package suggest

import "testing"

func TestDistanceCountsTheLettersToChange(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"slot", "slots", 1},
		{"lsots", "slots", 1},
		{"concurency", "concurrency", 1},
		{"kitten", "sitting", 3},
		{"ä", "a", 1},
	} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestAMisspelledNameIsSuggestedAndOtherwiseAllNamesAre(t *testing.T) {
	names := []string{"payouts", "partner-limit", "mail"}
	for word, want := range map[string]string{
		"payuots": "did you mean payouts?", "PARTNER_LIMIT": "did you mean partner-limit?", "mial": "did you mean mail?",
		"invoice": "use payouts, partner-limit or mail",
	} {
		if got := Advice(word, names); got != want {
			t.Errorf("about %s the advice is %q, want %q", word, got, want)
		}
	}
	if got := Advice("a", nil); got != "use none" {
		t.Errorf("without names the advice is %q", got)
	}
}
