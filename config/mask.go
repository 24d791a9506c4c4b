package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// mask is shown instead of a secret. It does not reveal the length.
const mask = "********"

// Parts of names of secrets, among headers, environment variables and options of URLs: secretParts
// anywhere in a name, secretWords as a word of it.
var (
	secretParts = []string{
		"token", "secret", "passw", "pwd", "passphrase", "credential", "cookie", "session", "signature", "jwt", "oauth", "authoriz", "authent",
		"apikey", "api-key",
	}
	secretWords = []string{"auth", "key", "pass", "pat", "sig", "dsn"}
)

// isSecretName reports whether name is the name of a secret.
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

// masked returns a printable form of the text of a header, an environment variable or the like, by its
// name: a mask if it is the name of a secret, and otherwise the text without the secrets in its URLs
// and headers.
func masked(name, text string) string {
	if text != "" && isSecretName(name) {
		return mask
	}
	return hidePasswords(text)
}

// maskedURL returns a URL without its credentials: the password, a user without a password, which
// is a token, and the options with names of secrets.
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

// maskOptions hides the values of the options of a URL with names of secrets.
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

// hidden matches a secret in a line of a file or in a word of a command, even if its syntax is not
// valid. The second group is the secret.
type hidden struct {
	has []string // lower-case texts; every match contains one of them, and they are fast to find
	is  *regexp.Regexp
}

// secretKeys matches the keys before secrets.
var secretKeys = []string{"authorization", "token", "secret", "passw", "cookie", "api-key", "api_key", "apikey", "access-key", "access_key"}

// Hidden are passwords in the options of a URL and before its host, users of a URL without a
// password, the text after the name of an authorization, and values of secret keys in --set.
var (
	optionPassword = hidden{[]string{"password="}, regexp.MustCompile(`([?&](?:ssl)?password=)([^&\s]+)`)}
	userPassword   = hidden{[]string{"://"}, regexp.MustCompile(`(://[^\s/@:]*:)(\S+)@`)}
	userToken      = hidden{[]string{"://"}, regexp.MustCompile(`(https?://)([^\s/@:?#"']+)@`)}
	secretEntry    = hidden{secretKeys, regexp.MustCompile(`(?i)((?:` + strings.Join(secretKeys, "|") + `)[\w-]*["']?\s*:\s*)("[^"\n]*"|'[^'\n]*'|[^\s,{}\[\]$&*|>"'#][^,}"'\n]*)`)}
	secretSet      = hidden{secretKeys, regexp.MustCompile(`(?i)((?:` + strings.Join(secretKeys, "|") + `)[\w-]*["']?=)([^\s{}$&|>][^&,}\n]*)`)}
)

// WithoutPasswords returns s, such as an error message, without the passwords in its URLs.
func WithoutPasswords(s string) string { return hide(s, optionPassword, userPassword) }

// hidePasswords replaces every character of a secret by a star, so that the text around it keeps
// its place.
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

// isReference reports whether a value is a reference, which is shown unchanged.
func isReference(s string) bool { return strings.HasPrefix(s, "${") && strings.HasSuffix(s, "}") }

// guarded is a text that may be, or contain, a literal secret.
type guarded struct {
	value[Text]
	hide func(name, text string) string // returns the printable form of a text
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

// httpURL is a URL that receives tasks.
func httpURL() guarded {
	return guarded{secret("a URL, such as https://example.com/tasks", isURL), func(_, text string) string { return maskedURL(text) }}
}
