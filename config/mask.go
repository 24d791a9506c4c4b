package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// mask is shown instead of a secret: its length says nothing.
const mask = "********"

// Parts of the names whose values are secrets, of headers, environment variables and options
// of URLs: anywhere in a name, and as a word of it.
var (
	secretParts = []string{
		"token", "secret", "passw", "pwd", "passphrase", "credential", "cookie", "session", "signature", "jwt", "oauth", "authoriz", "authent",
		"apikey", "api-key",
	}
	secretWords = []string{"auth", "key", "pass", "pat", "sig", "dsn"}
)

// isSecretName reports whether a name is that of a secret.
func isSecretName(name string) bool {
	name = strings.ToLower(name)
	if slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(name, part) }) {
		return true
	}
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' }) {
		if slices.Contains(secretWords, word) {
			return true
		}
	}
	return false
}

// masked returns what may be shown of a text that stands under a name, such as that of a
// header or of an environment variable: a mask if the name is that of a secret, and
// otherwise the text without the secrets in the URLs and headers in it.
func masked(name, text string) string {
	if text != "" && isSecretName(name) {
		return mask
	}
	return hidePasswords(text)
}

// maskedURL returns a URL without what lets people in: the password, a user without a password,
// which is a token, and the options whose names are those of secrets.
func maskedURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return hidePasswords(text)
	}
	if u.User != nil {
		_, before, _ := strings.Cut(text, "://")
		info, rest, _ := cutLastBefore(before, '@', "/?#")
		user, _, hasPassword := strings.Cut(info, ":")
		if !hasPassword {
			user = mask
		} else {
			user += ":" + mask
		}
		text = u.Scheme + "://" + user + "@" + rest
	}
	return maskOptions(text)
}

// cutLastBefore cuts s at the last sep that stands before any of the characters in end.
func cutLastBefore(s string, sep byte, end string) (before, after string, found bool) {
	stop := strings.IndexAny(s, end)
	if stop < 0 {
		stop = len(s)
	}
	i := strings.LastIndexByte(s[:stop], sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

var urlOption = regexp.MustCompile(`([?&])([^=&#]*)=([^&#]*)`)

// maskOptions hides the values of the options of a URL whose names are those of secrets.
func maskOptions(text string) string {
	return urlOption.ReplaceAllStringFunc(text, func(s string) string {
		m := urlOption.FindStringSubmatch(s)
		name, err := url.QueryUnescape(m[2])
		if m[3] == "" || err == nil && !isSecretName(name) {
			return s
		}
		return m[1] + m[2] + "=" + mask
	})
}

// hidden is something secret in a line of a file or in a word of a command, also if it is not
// written right. Its second group is the secret.
type hidden struct {
	has []string // texts, in small letters, of which one is there if it is; looking for them is fast
	is  *regexp.Regexp
}

// secretKeys are those of the keys in front of secrets.
var secretKeys = []string{"authorization", "token", "secret", "passw", "cookie", "api-key", "api_key", "apikey", "access-key", "access_key"}

// What is hidden: passwords among the options of a URL and before its host, users of a URL
// without a password, what follows the name of an authorization, and what a --set gives to one.
var (
	optionPassword = hidden{[]string{"password="}, regexp.MustCompile(`([?&](?:ssl)?password=)([^&\s]+)`)}
	userPassword   = hidden{[]string{"://"}, regexp.MustCompile(`(://[^\s/@:]*:)(\S+)@`)}
	userToken      = hidden{[]string{"://"}, regexp.MustCompile(`(https?://)([^\s/@:?#"']+)@`)}
	secretEntry    = hidden{secretKeys, regexp.MustCompile(`(?i)((?:` + strings.Join(secretKeys, "|") + `)[\w-]*["']?\s*:\s*)("[^"\n]*"|'[^'\n]*'|[^\s,{}\[\]$&*|>"'#][^,}"'\n]*)`)}
	secretSet      = hidden{secretKeys, regexp.MustCompile(`(?i)((?:` + strings.Join(secretKeys, "|") + `)[\w-]*["']?=)([^\s{}$&|>][^&,}\n]*)`)}
)

// WithoutPasswords returns a text for people, such as an error, without the passwords in the
// URLs in it.
func WithoutPasswords(s string) string { return hide(s, optionPassword, userPassword) }

// hidePasswords replaces every character of a secret by a star, so that what stands around it
// keeps its place.
func hidePasswords(s string) string {
	return hide(s, optionPassword, userPassword, userToken, secretEntry, secretSet)
}

func hide(s string, secrets ...hidden) string {
	small := strings.ToLower(s)
	for _, secret := range secrets {
		if !slices.ContainsFunc(secret.has, func(text string) bool { return strings.Contains(small, text) }) {
			continue
		}
		var b strings.Builder
		last := 0
		for _, m := range secret.is.FindAllStringSubmatchIndex(s, -1) {
			from, to := m[4], m[5]
			if isReference(strings.Trim(s[from:to], `"'`)) {
				continue
			}
			b.WriteString(s[last:from])
			b.WriteString(strings.Repeat("*", utf8.RuneCountInString(s[from:to])))
			last = to
		}
		b.WriteString(s[last:])
		s = b.String()
	}
	return s
}

// isReference reports whether a value is shown as it is because it names the place of a
// secret.
func isReference(s string) bool { return strings.HasPrefix(s, "${") && strings.HasSuffix(s, "}") }

// guarded is a text that may be, or have in it, a secret that is written out.
type guarded struct {
	value[Text]
	hide func(name, text string) string // returns what may be shown of a text
}

func (g guarded) decode(d *decoder, n *node, into any) {
	target := into.(*Text)
	g.value.decode(d, n, target)
	if target.shown != "" || len(d.path) == 0 {
		return
	}
	if hidden := g.hide(d.path[len(d.path)-1], target.value); hidden != target.value {
		target.shown = hidden
	}
}

// httpURL is a URL that tasks are sent to.
func httpURL() guarded {
	return guarded{secret("a URL, such as https://example.com/tasks", isURL), func(_, text string) string { return maskedURL(text) }}
}
