package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

// bill is a bill of materials in the format of CycloneDX 1.6.
type bill struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     billMetadata `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type billMetadata struct {
	Time      string    `json:"timestamp"` // of the commit
	Component component `json:"component"`
}

type component struct {
	Type     string           `json:"type"`
	Ref      string           `json:"bom-ref"`
	Name     string           `json:"name"`
	Version  string           `json:"version"`
	Hashes   []componentHash  `json:"hashes,omitempty"`
	Licences []map[string]any `json:"licenses,omitempty"`
	Package  string           `json:"purl"`
}

type componentHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

// billOf returns the bill of materials of a program: the modules that Go wrote into it, and the version of Go. The
// program does not say which module needs which, so the bill has all of them as dependencies of the program.
func billOf(path string, binary []byte, r *repository, p platform) ([]byte, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(binary)
	own := component{
		Type: "application", Name: program, Version: r.version,
		Hashes:   []componentHash{{"SHA-256", hex.EncodeToString(sum[:])}},
		Licences: []map[string]any{{"license": map[string]string{"id": "Apache-2.0"}}},
		Package:  packageURL(module, r.version) + "?goarch=" + p.architecture + "&goos=" + p.system,
	}
	own.Ref = own.Package
	b := bill{
		Format: "CycloneDX", Spec: "1.6", Serial: "urn:uuid:" + uuidOf(sum), Version: 1,
		Metadata: billMetadata{Time: r.date.Format(time.RFC3339), Component: own},
	}
	all := dependency{Ref: own.Ref}
	add := func(name, version, purl string) {
		b.Components = append(b.Components, component{Type: "library", Ref: purl, Name: name, Version: version, Package: purl})
		b.Dependencies = append(b.Dependencies, dependency{Ref: purl})
		all.On = append(all.On, purl)
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(m.Path, m.Version, packageURL(m.Path, m.Version))
	}
	version := strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")
	add("std", version, packageURL("std", version))
	b.Dependencies = append(b.Dependencies, all)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(b); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// packageURL returns the name of a module of Go as a package URL. These are in lower case.
func packageURL(path, version string) string {
	return "pkg:golang/" + strings.ToLower(path) + "@" + url.QueryEscape(version)
}

// uuidOf makes the serial number of a bill from the checksum of its program, so that it is the same each time.
func uuidOf(sum [sha256.Size]byte) string {
	id := sum[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8, of a meaning of its own
	x := hex.EncodeToString(id)
	return strings.Join([]string{x[:8], x[8:12], x[12:16], x[16:20], x[20:]}, "-")
}
