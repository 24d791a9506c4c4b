package units

import "testing"

func TestDigitsAreThreeThatCount(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", -1: "-1", 1.5: "1.5", 1.25: "1.25", 1.2345: "1.23", 12.345: "12.3", 123.45: "123",
		99.96: "100", 1234.5: "1234", 0.5: "0.5", 0.00123: "0.00123", -0.0456: "-0.0456",
		1e-9: "1e-09", 1e15: "1e+15", 100: "100",
	} {
		if got := Digits(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}

func TestBytesHaveTheLargestUnitThatFits(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0 B", 1: "1 B", 999: "999 B", 1000: "1 kB", 1536: "1.54 kB", 999_400: "999 kB", 999_600: "1 MB",
		1.5e9: "1.5 GB", 2e12: "2 TB", 5e15: "5000 TB", -2000: "-2 kB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%v bytes are written %q, want %q", n, got, want)
		}
	}
}
