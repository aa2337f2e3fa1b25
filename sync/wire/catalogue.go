package wire

import (
	"fmt"
	"strings"
)

// PathCatalogues+SHA256 gives the catalogue that the snapshot lists, byte for byte.
const PathCatalogues = "/v1/catalogues/"

// SnapshotQuery3 after PathSnapshot asks for the text that names the catalogue and the
// software too. A central that gives it says so in the answer to a hello (Texts).
const (
	SnapshotQuery3 = "?text=3"
	SnapshotTexts  = 3 // the newest text of a snapshot that this program reads and writes
)

// Limits of these lines.
const (
	MaxCatalogue = 1 << 20 // bytes of a catalogue
	MaxReleases  = 20      // pieces of software in a snapshot
	MaxRelease   = 1 << 32 // bytes of one
)

// CatalogueFile is the catalogue of games as the snapshot lists it; the zero value is none.
type CatalogueFile struct {
	SHA256 string
	Size   int64
}

// Release is a piece of software that central names: what it is called, in which version,
// and by which bytes. The snapshot carries it; whoever installs software reads it there.
type Release struct {
	Name    string `json:"name"` // 1 to 32 of a-z, 0-9 and -
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size"` // bytes
}

// Check is nil for a release that a snapshot can name.
func (r Release) Check() error {
	const small, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
	switch {
	case r.Name == "" || len(r.Name) > 32 || strings.Trim(r.Name, small+digits+"-") != "":
		return fmt.Errorf("software %.40q: a name has 1 to 32 of a to z, 0 to 9 and -", r.Name)
	case r.Version == "" || len(r.Version) > 32 || strings.Trim(r.Version, small+strings.ToUpper(small)+digits+"-+._~") != "":
		return fmt.Errorf("software %s: version %.40q has other characters than letters, digits and -+._~, or more than 32", r.Name, r.Version)
	case !isSHA256(r.SHA256) || r.Size < 1 || r.Size > MaxRelease:
		return fmt.Errorf("software %s %s: SHA-256 %.70q, %d bytes", r.Name, r.Version, r.SHA256, r.Size)
	}
	return nil
}

// extraLines are the lines of the catalogue and the software, none where there is neither.
func extraLines(c CatalogueFile, software []Release) string {
	var b strings.Builder
	if c != (CatalogueFile{}) {
		fmt.Fprintf(&b, "catalogue %s %d\n", c.SHA256, c.Size)
	}
	if len(software) > 0 {
		fmt.Fprintf(&b, "software %d\n", len(software))
	}
	for _, r := range software {
		fmt.Fprintf(&b, "release %s %s %s %d\n", r.Name, r.Version, r.SHA256, r.Size)
	}
	return b.String()
}

// parseExtra reads the lines behind the policies.
func parseExtra(lines []string) (c CatalogueFile, software []Release, err error) {
	if len(lines) > 0 && strings.HasPrefix(lines[0], "catalogue ") {
		if _, err := fmt.Sscanf(lines[0], "catalogue %64s %d", &c.SHA256, &c.Size); err != nil || !isSHA256(c.SHA256) || c.Size < 1 || c.Size > MaxCatalogue {
			return c, nil, fmt.Errorf("catalogue %.80q", lines[0])
		}
		lines = lines[1:]
	}
	if len(lines) == 0 {
		return c, nil, nil
	}
	var n int
	if _, err := fmt.Sscanf(lines[0], "software %d", &n); err != nil || n != len(lines)-1 || n < 1 || n > MaxReleases {
		return c, nil, fmt.Errorf("%d lines after the catalogue, which begin with %.40q", len(lines), lines[0])
	}
	for _, line := range lines[1:] {
		var r Release
		if _, err := fmt.Sscanf(line, "release %s %s %64s %d", &r.Name, &r.Version, &r.SHA256, &r.Size); err != nil {
			return c, nil, fmt.Errorf("release %.80q", line)
		}
		if err := r.Check(); err != nil {
			return c, nil, err
		}
		software = append(software, r)
	}
	return c, software, nil
}
