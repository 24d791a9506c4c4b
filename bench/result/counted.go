package result

import "fmt"

// Counted returns a number and what it counts, for people: "1 run", "2 runs", "0 runs". The
// noun is a regular one, in the singular.
func Counted[N int | int32 | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
