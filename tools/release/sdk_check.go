package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// filesOf returns the files of an archive, of which the kind follows from its name.
func filesOf(archive string) (map[string][]byte, error) {
	content, err := os.ReadFile(archive)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	if !strings.HasSuffix(archive, "gz") {
		z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return nil, err
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				return nil, err
			}
			if files[f.Name], err = io.ReadAll(r); err != nil {
				return nil, err
			}
		}
		return files, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
}

// lacking returns an error for each file that an archive does not have.
func lacking(archive string, files map[string][]byte, names ...string) (errs []error) {
	for _, name := range names {
		if len(files[name]) == 0 {
			errs = append(errs, fmt.Errorf("%s has no %s", filepath.Base(archive), name))
		}
	}
	return errs
}

// checkPython checks the wheel and the sources of a version: their metadata, types, code for the protocol and licence.
func checkPython(dir, version string) error {
	base := filepath.Join(dir, strings.ReplaceAll(sdkName, "-", "_")+"-"+pythonVersion(version))
	wheel, sources := base+"-py3-none-any.whl", base+".tar.gz"
	files, err := filesOf(wheel)
	if err != nil {
		return err
	}
	info := filepath.Base(base) + ".dist-info/"
	errs := lacking(wheel, files, info+"METADATA", info+"RECORD", info+"licenses/LICENSE", "taskengine/_wire.py", "taskengine/client/_messages.py")
	if _, typed := files["taskengine/py.typed"]; !typed { // it is empty
		errs = append(errs, fmt.Errorf("%s has no types", filepath.Base(wheel)))
	}
	for name := range files {
		if top, _, _ := strings.Cut(name, "/"); top != program && top+"/" != info {
			errs = append(errs, fmt.Errorf("%s has %s, which is no part of the package", filepath.Base(wheel), name))
		}
	}
	for _, line := range []string{
		"Name: " + sdkName, "Version: " + pythonVersion(version), "License-Expression: Apache-2.0", "Requires-Python: >=3.9",
		"Description-Content-Type: text/markdown", "Requires-Dist: grpcio>=1.51", "Project-URL: Repository, https://" + module,
	} {
		if !strings.Contains(string(files[info+"METADATA"]), "\n"+line+"\n") {
			errs = append(errs, fmt.Errorf("the description of %s has no line %q", filepath.Base(wheel), line))
		}
	}
	if files, err = filesOf(sources); err != nil {
		return err
	}
	folder := filepath.Base(base) + "/"
	return errors.Join(append(errs, lacking(sources, files, folder+"PKG-INFO", folder+"LICENSE", folder+"pyproject.toml", folder+"taskengine/__init__.py")...)...)
}

// npmPackage is the part of package.json that is checked.
type npmPackage struct {
	Name, Version, Description, License string
	Repository                          struct{ URL, Directory string }
	Exports                             map[string]struct{ Types, Default string }
	Dependencies                        map[string]string
}

// checkNode checks the package of a version: that each of its entries has code and types, that its requirements have versions, and that npm generates nothing
// when it installs the package.
func checkNode(dir, version string) error {
	archive := filepath.Join(dir, sdkName+"-"+version+".tgz")
	files, err := filesOf(archive)
	if err != nil {
		return err
	}
	var p struct {
		npmPackage
		Scripts map[string]string
	}
	if err := json.Unmarshal(files["package/package.json"], &p); err != nil {
		return fmt.Errorf("package.json: %w", err)
	}
	errs := lacking(archive, files, "package/LICENSE", "package/README.md", "package/dist/gen/handler_pb.js")
	if p.Name != sdkName || p.Version != version || p.Description == "" || p.License != "Apache-2.0" || !strings.Contains(p.Repository.URL, module) {
		errs = append(errs, fmt.Errorf("package.json is that of %s %s with the licence %q of %s", p.Name, p.Version, p.License, p.Repository.URL))
	}
	for _, name := range []string{"preinstall", "install", "postinstall", "prepare"} {
		if script := p.Scripts[name]; script != "" {
			errs = append(errs, fmt.Errorf("package.json has a script %s, which runs at the site of the user: %s", name, script))
		}
	}
	for _, to := range p.Exports {
		errs = append(errs, lacking(archive, files, path.Join("package", to.Types), path.Join("package", to.Default))...)
	}
	for name, wanted := range p.Dependencies {
		if !regexp.MustCompile(`^[\^~]?\d`).MatchString(wanted) {
			errs = append(errs, fmt.Errorf("package.json requires %s in the version %q", name, wanted))
		}
	}
	if len(p.Exports) == 0 {
		errs = append(errs, errors.New("package.json exports nothing"))
	}
	return errors.Join(errs...)
}

// named is a licence or a developer.
type named struct {
	Name string `xml:"name"`
	URL  string `xml:"url"`
}

// pom is the part of a pom.xml that Maven Central has rules for.
type pom struct {
	Group       string  `xml:"groupId"`
	Artifact    string  `xml:"artifactId"`
	Version     string  `xml:"version"`
	Name        string  `xml:"name"`
	Description string  `xml:"description"`
	URL         string  `xml:"url"`
	Licences    []named `xml:"licenses>license"`
	Developers  []named `xml:"developers>developer"`
	SCM         struct {
		Connection string `xml:"connection"`
		URL        string `xml:"url"`
	} `xml:"scm"`
	Dependencies []struct {
		Group    string `xml:"groupId"`
		Artifact string `xml:"artifactId"`
		Version  string `xml:"version"`
	} `xml:"dependencies>dependency"`
	Repositories []string `xml:"repositories>repository>url"`
}

// checkPom checks a pom.xml by the rules of Maven Central.
func checkPom(text []byte, version string) error {
	var p pom
	if err := xml.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("pom.xml: %w", err)
	}
	var errs []error
	for name, value := range map[string]string{
		"groupId": p.Group, "artifactId": p.Artifact, "name": p.Name, "description": p.Description, "url": p.URL,
		"scm/connection": p.SCM.Connection, "scm/url": p.SCM.URL,
	} {
		if value == "" || strings.Contains(value, "${") {
			errs = append(errs, fmt.Errorf("pom.xml: %s is %q", name, value))
		}
	}
	if p.Version != version || strings.HasSuffix(p.Version, "-SNAPSHOT") {
		errs = append(errs, fmt.Errorf("pom.xml: the version is %q, want %q, and no SNAPSHOT", p.Version, version))
	}
	if len(p.Licences) == 0 || slices.ContainsFunc(p.Licences, func(l named) bool { return l.Name == "" || l.URL == "" }) {
		errs = append(errs, errors.New("pom.xml: a licence with a name and a URL is missing"))
	}
	if len(p.Developers) == 0 || p.Developers[0].Name == "" {
		errs = append(errs, errors.New("pom.xml: the developers are missing"))
	}
	for _, d := range p.Dependencies {
		if d.Version == "" || strings.ContainsAny(d.Version, "$[(,") || strings.HasSuffix(d.Version, "-SNAPSHOT") {
			errs = append(errs, fmt.Errorf("pom.xml: the dependency %s:%s has the version %q", d.Group, d.Artifact, d.Version))
		}
	}
	if len(p.Repositories) > 0 {
		errs = append(errs, fmt.Errorf("pom.xml: it names repositories: %q", p.Repositories))
	}
	return errors.Join(errs...)
}

// checkJava checks the jars and the pom.xml of a version.
func checkJava(dir, version string) error {
	base := filepath.Join(dir, sdkName+"-"+version)
	text, err := os.ReadFile(base + ".pom")
	if err != nil {
		return err
	}
	errs := []error{checkPom(text, version)}
	const folder = "io/github/taskengine/"
	for end, names := range map[string][]string{
		".jar": {
			"META-INF/MANIFEST.MF", "META-INF/LICENSE.txt", folder + "handler/Handlers.class", folder + "client/TaskengineClient.class",
			folder + "handler/internal/Wire.class", folder + "client/internal/Api.class",
		},
		"-sources.jar": {folder + "handler/Handlers.java", folder + "handler/internal/Wire.java"},
		"-javadoc.jar": {"index.html", folder + "handler/Handlers.html"},
	} {
		files, err := filesOf(base + end)
		if err != nil {
			return err
		}
		errs = append(errs, lacking(base+end, files, names...)...)
	}
	return errors.Join(errs...)
}
