package units

import (
	"testing"
	"time"
)

func TestSpansHaveOneOrTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1234 * time.Microsecond: "1ms", 12345 * time.Millisecond: "12.3s", 754 * time.Second: "12m34s",
		3*time.Hour + 4*time.Minute + 5*time.Second: "3h4m", 50 * time.Hour: "2d2h", -time.Minute: "-1m0s",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v is shown as %s, want %s", d, got, want)
		}
	}
}

func TestWholeBytesAreAtLeastTenOfTheirUnit(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 10239: "10239 bytes", 10240: "10 KiB", 10 << 20: "10 MiB", 512 << 20: "512 MiB", 9 << 30: "9216 MiB", 10 << 30: "10 GiB",
	} {
		if got := WholeBytes(n); got != want {
			t.Errorf("%d is written %q, want %q", n, got, want)
		}
	}
}

func TestABriefDurationHasOneUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 999 * time.Millisecond: "0s", 119900 * time.Millisecond: "119s", 2 * time.Minute: "2m", 2*time.Hour - 1: "119m",
		2 * time.Hour: "2h", 48*time.Hour - 1: "47h", 48 * time.Hour: "2d", 10_000 * time.Hour: "416d",
	} {
		if got := Brief(d); got != want {
			t.Errorf("%v is shown as %s, want %s", d, got, want)
		}
	}
}
