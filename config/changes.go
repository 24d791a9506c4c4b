package config

import (
	"maps"
	"slices"
	"strings"
)

// Change is a key with different values in two configurations.
type Change struct {
	Key           string // with its sections, such as limits.partner.max
	Before, After string // as YAML, without secrets; "" if the key is not there
	IsLive        bool   // a node that runs can apply it; otherwise it takes a restart
}

// Changes returns the keys whose values differ in two configurations, in their order. Secrets that are written out are compared, and masked in the
// result. References are compared, and not what they stand for.
func Changes(before, after *Config) (all []Change) {
	old, now := flatten(before.dump(true)), flatten(after.dump(true))
	oldShown, nowShown := flatten(before.String()), flatten(after.String())
	adopted := before.Adopt(after)
	keys := maps.Clone(old)
	maps.Copy(keys, now)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if old[key] != now[key] {
			path := strings.Split(key, separator)
			all = append(all, Change{strings.Join(path, "."), oldShown[key], nowShown[key], adopts(path, before, after, adopted)})
		}
	}
	return all
}

// separator is between the sections of a key. No section contains it.
const separator = "\x00"

// flatten returns the values of a configuration that [Config.String] has written, by their keys, which have a separator after each section.
func flatten(text string) map[string]string {
	values := make(map[string]string)
	var path []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		rest := strings.TrimLeft(line, " ")
		depth := (len(line) - len(rest)) / 2
		key, value, ok := strings.Cut(rest, ":")
		if !ok || depth > len(path) {
			continue
		}
		path = append(path[:depth], key)
		value = strings.TrimSpace(value)
		for _, comment := range []string{" # default", " # secrets are not shown", " # its password is not shown"} {
			value = strings.TrimSuffix(value, comment)
		}
		if value != "" {
			values[strings.Join(path, separator)] = value
		}
	}
	return values
}
