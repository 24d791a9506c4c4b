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
	keys := maps.Clone(old)
	maps.Copy(keys, now)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if old[key] != now[key] {
			all = append(all, Change{key, oldShown[key], nowShown[key], isLive(key, before, after)})
		}
	}
	return all
}

// isLive reports whether a node that runs applies a change of a key.
func isLive(key string, before, after *Config) bool {
	parts := strings.Split(key, ".")
	switch {
	case parts[0] == "schedules":
		return true
	case len(parts) > 2 && parts[0] == "handlers":
		return before.Handlers[parts[1]].Plugin != nil && after.Handlers[parts[1]].Plugin != nil
	case len(parts) > 2 && parts[0] == "types":
		return parts[len(parts)-1] == "redact"
	}
	return false
}

// flatten returns the values of a configuration that [Config.String] has written, by their keys with their sections.
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
			values[strings.Join(path, ".")] = value
		}
	}
	return values
}
