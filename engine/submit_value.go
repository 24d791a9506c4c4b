package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// computed begins the Per of a limit with values that a function of the program computes.
const computed = "func"

// valueFunc is one of [Config.Values].
type valueFunc = func(*Request) string

// checkValues returns an error if a limit needs a function that the program does not have.
func checkValues(c *Config) error {
	for _, name := range slices.Sorted(maps.Keys(c.Policies.Limits)) {
		of, ok := strings.CutPrefix(c.Policies.Limits[name].Per, computed+".")
		if ok && c.Values[of] == nil {
			return fmt.Errorf("engine: limit %q is per func.%s: set Config.Values[%q], which computes that value", name, of, of)
		}
	}
	return nil
}

// compute sets the functions of the keys. used is how many of the values the limits of this program
// need. Behind those, a value whose function only other programs have is left out with all that follow:
// the group of a task is too short then, and a node of such a program completes it.
func compute(keys []keyed, used int, values map[string]valueFunc) []keyed {
	for i := range keys {
		k := &keys[i]
		if k.path[0] != computed {
			continue
		}
		if k.value = values[strings.Join(k.path[1:], ".")]; k.value == nil && i >= used {
			return keys[:i]
		}
	}
	return keys
}

// compute returns the value of a request. A value that no limit of this program uses, and that it
// cannot compute, is empty.
func (k *keyed) compute(r *Request) (value string, err error) {
	if k.value == nil {
		return "", nil
	}
	defer func() {
		if p := recover(); p != nil {
			value, err = "", fmt.Errorf("the function of the value %s panicked: %v", strings.Join(k.path, "."), p)
		}
	}()
	given := *r // a copy: the function may keep it, and r stays on the stack of the caller
	if value = k.value(&given); !utf8.ValidString(value) {
		return "", fmt.Errorf("the function of the value %s returned text that is not UTF-8", strings.Join(k.path, "."))
	}
	return value, nil
}
