package result

import "fmt"

// Counted returns a number with a noun: "1 run", "2 runs", "0 runs". The noun is in the singular, and
// its plural must end in s.
func Counted[N int | int32 | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
