package reason

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// versionWithin is how long servers may take to say their version.
const versionWithin = 5 * time.Second

// FirstVersion returns the version that the first server says, and the address of the server; "" if none says it in time. ask is
// called for all addresses at once.
func FirstVersion(ctx context.Context, addresses []string, ask func(ctx context.Context, address string) string) (version, address string) {
	ctx, cancel := context.WithTimeout(ctx, versionWithin)
	defer cancel() // ends the other questions
	type answer struct{ version, address string }
	answers := make(chan answer, len(addresses))
	for _, a := range addresses {
		go func() { answers <- answer{ask(ctx, a), a} }()
	}
	for range addresses {
		select {
		case a := <-answers:
			if a.version != "" {
				return a.version, a.address
			}
		case <-ctx.Done():
			return "", ""
		}
	}
	return "", ""
}

// TooOld returns the error of a server of a version before the oldest, which is a [coord.ErrRefused]. It returns nil for a version that
// it cannot read.
func TooOld(product, address, version, oldest string) error {
	is, ok := numbers(version)
	if want, _ := numbers(oldest); !ok || is[0] > want[0] || is[0] == want[0] && is[1] >= want[1] {
		return nil
	}
	return &Error{
		What:    fmt.Sprintf("%s is %s %s, and this program needs %s or newer: upgrade it", address, product, version, oldest),
		Refused: true,
	}
}

// numbers returns the first two numbers of a version such as 3.8.0.
func numbers(version string) (both [2]int, ok bool) {
	parts := strings.Split(version, ".")
	if len(parts) < len(both) {
		return both, false
	}
	for i := range both {
		var err error
		if both[i], err = strconv.Atoi(parts[i]); err != nil {
			return both, false
		}
	}
	return both, true
}
