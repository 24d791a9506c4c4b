package main

import (
	"bytes"
	"crypto/md5" // of a list in the package that dpkg --verify reads
	"fmt"
	"io"
)

// The scripts of a deb. Nothing removes tasks, the user or, before a purge, the configuration.
const (
	debPostinst = "#!/bin/sh\nset -e\n[ \"$1\" = configure ] || exit 0\n" + makeUser + reload + "[ -z \"$2\" ] || {\n" + restart + "}\n"
	debPrerm    = "#!/bin/sh\nset -e\n[ \"$1\" = remove ] || exit 0\n" + stop
	debPostrm   = "#!/bin/sh\nset -e\n" + reload
)

// writeDeb writes a package of dpkg: an ar archive of two compressed archives.
func (p *pack) writeDeb(w io.Writer) error {
	var control, data bytes.Buffer
	if err := writeArchive(&control, inDot(p.debControl()), p.date, p.level); err != nil {
		return err
	}
	if err := writeArchive(&data, inDot(withFolders(p.files)), p.date, p.level); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "!<arch>\n"); err != nil {
		return err
	}
	for _, m := range []file{
		{name: "debian-binary", content: []byte("2.0\n")},
		{name: "control.tar.gz", content: control.Bytes()},
		{name: "data.tar.gz", content: data.Bytes()},
	} {
		if _, err := fmt.Fprintf(w, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.name, p.date.Unix(), 0, 0, 0o100644, len(m.content)); err != nil {
			return err
		}
		if len(m.content)%2 != 0 {
			m.content = append(m.content, '\n') // members begin at even places
		}
		if _, err := w.Write(m.content); err != nil {
			return err
		}
	}
	return nil
}

// debControl are the files that describe the package.
func (p *pack) debControl() []file {
	var sums bytes.Buffer
	size := 0
	for _, f := range p.files {
		size += len(f.content)
		if f.name != packageConfig {
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.content), f.name)
		}
	}
	control := fmt.Sprintf(`Package: %s
Version: %s
Architecture: %s
Maintainer: the maintainers of taskengine <%s>
Installed-Size: %d
Section: admin
Priority: optional
Homepage: %s
Description: %s
 %s
`, program, packageVersion(p.version), p.architecture, homepage, (size+1023)/1024, homepage, summary, description)
	return []file{
		{name: "control", mode: 0o644, content: []byte(control)},
		{name: "conffiles", mode: 0o644, content: []byte("/" + packageConfig + "\n")},
		{name: "md5sums", mode: 0o644, content: sums.Bytes()},
		{name: "postinst", mode: 0o755, content: []byte(debPostinst)},
		{name: "prerm", mode: 0o755, content: []byte(debPrerm)},
		{name: "postrm", mode: 0o755, content: []byte(debPostrm)},
	}
}

// inDot puts files below ./, as dpkg has them.
func inDot(files []file) []file {
	all := []file{{name: "./", mode: 0o755}}
	for _, f := range files {
		f.name = "./" + f.name
		all = append(all, f)
	}
	return all
}
