package main

import (
	"fmt"
	"io"
	"path"

	"github.com/google/rpmpack"
)

// The scripts of an rpm. $1 is the number of versions that stay installed.
const (
	rpmPost   = makeUser + reload + "if [ \"$1\" -ge 2 ]; then\n" + restart + "fi\n"
	rpmPreun  = "[ \"$1\" -eq 0 ] || exit 0\n" + stop
	rpmPostun = reload
)

// rpmArchitectures are the architectures of Go as rpm names them.
var rpmArchitectures = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// folderMode is the type of a folder in a file system.
const folderMode = 0o040000

// writeRPM writes a package of rpm.
func (p *pack) writeRPM(w io.Writer) error {
	architecture, ok := rpmArchitectures[p.architecture]
	if !ok {
		return fmt.Errorf("rpm has no name for the architecture %s: add it to rpmArchitectures", p.architecture)
	}
	r, err := rpmpack.NewRPM(rpmpack.RPMMetaData{
		Name: program, Version: packageVersion(p.version), Release: "1", Epoch: rpmpack.NoEpoch, Arch: architecture,
		Summary: summary, Description: description, URL: homepage, Licence: "Apache-2.0", Group: "System Environment/Daemons",
		BuildTime: p.date, BuildHost: "localhost", Compressor: fmt.Sprintf("gzip:%d", p.level),
	})
	if err != nil {
		return err
	}
	own := map[string]bool{"etc/" + program + "/": true, "usr/share/doc/" + program + "/": true} // other packages own the others
	for _, f := range withFolders(p.files) {
		kind, mode := rpmpack.GenericFile, uint(f.mode)
		switch {
		case f.name == packageConfig:
			kind = rpmpack.ConfigFile | rpmpack.NoReplaceFile
		case own[f.name]:
			mode |= folderMode
		case f.name[len(f.name)-1] == '/':
			continue
		case path.Dir(f.name) == "usr/share/doc/"+program:
			kind = rpmpack.DocFile
		}
		r.AddFile(rpmpack.RPMFile{
			Name: path.Clean("/" + f.name), Body: f.content, Mode: mode, Owner: "root", Group: "root", MTime: uint32(p.date.Unix()), Type: kind,
		})
	}
	r.AddPostin(rpmPost)
	r.AddPreun(rpmPreun)
	r.AddPostun(rpmPostun)
	return r.Write(w)
}
