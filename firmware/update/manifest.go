package update

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"grattoir/validate/manifest"
)

// An update is two files of one name.
const (
	BundleSuffix   = ".raucb"  // what RAUC installs
	ManifestSuffix = ".update" // the signed note that this program believes
)

// Limits of the format, in bytes.
const (
	PieceSize   = 1 << 20
	MaxBundle   = 1 << 30
	MaxManifest = 96 << 10
)

// Manifest is what is signed of an update, beside RAUC's own signature in the bundle:
// RAUC 1.8 knows of no version that is too old, so this says which it is.
type Manifest struct {
	Version string // for people, as 1.4.0
	Number  int64  // rises from release to release, from 1
	Floor   int64  // once this update is good, nothing with a lower number may run again; at most Number
	Board   string // RAUC's compatible, as grattoir-pi
	Size    int64  // of the bundle
	SHA256  string // of the bundle, 64 lower-case hexadecimal digits
	Pieces  [][32]byte
}

const manifestTitle = "grattoir update v1"

var wordForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// ErrManifest means that an update's manifest is not one that a trusted key has signed.
var ErrManifest = errors.New("the update's manifest is not one that a release key of this terminal has signed")

// Text is the one form that is signed.
func (m Manifest) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nversion %s\nnumber %d\nfloor %d\nboard %s\nsize %d\nsha256 %s\npiece %d\n", manifestTitle, m.Version, m.Number, m.Floor, m.Board, m.Size, m.SHA256, PieceSize)
	for _, p := range m.Pieces {
		fmt.Fprintf(&b, "%x\n", p)
	}
	return b.String()
}

// ParseManifest reads what Text writes, and nothing else.
func ParseManifest(text string) (m Manifest, err error) {
	lines := strings.Split(text, "\n")
	if len(text) > MaxManifest || len(lines) < 10 || lines[0] != manifestTitle {
		return m, fmt.Errorf("update manifest: it does not begin with %q and go on as that does", manifestTitle)
	}
	value := func(line int) string {
		_, v, _ := strings.Cut(lines[line], " ")
		return v
	}
	m.Version, m.Board, m.SHA256 = value(1), value(4), value(6)
	m.Number, _ = strconv.ParseInt(value(2), 10, 64) // what does not parse does not come out as it went in
	m.Floor, _ = strconv.ParseInt(value(3), 10, 64)
	m.Size, _ = strconv.ParseInt(value(5), 10, 64)
	for _, line := range lines[8 : len(lines)-1] {
		raw, err := hex.DecodeString(line)
		if err != nil || len(raw) != sha256.Size {
			return m, fmt.Errorf("update manifest: piece %.70q", line)
		}
		m.Pieces = append(m.Pieces, [32]byte(raw))
	}
	if err := m.validate(); err != nil {
		return m, fmt.Errorf("update manifest: %w", err)
	}
	if m.Text() != text {
		return m, errors.New("update manifest: it is written in another way than this program does")
	}
	return m, nil
}

func (m Manifest) validate() error {
	raw, err := hex.DecodeString(m.SHA256)
	switch {
	case !wordForm.MatchString(m.Version), !wordForm.MatchString(m.Board):
		return fmt.Errorf("version %.40q, board %.40q: want 1 to 32 letters, digits, '.', '_' and '-'", m.Version, m.Board)
	case m.Number < 1 || m.Floor < 0 || m.Floor > m.Number:
		return fmt.Errorf("number %d with the floor %d: want a number from 1 and a floor that is not above it", m.Number, m.Floor)
	case err != nil || len(raw) != sha256.Size || strings.ToLower(m.SHA256) != m.SHA256:
		return fmt.Errorf("SHA-256 %.70q", m.SHA256)
	case m.Size < 1 || m.Size > MaxBundle:
		return fmt.Errorf("a bundle of %d bytes: want 1 to %d", m.Size, MaxBundle)
	case int64(len(m.Pieces)) != (m.Size+PieceSize-1)/PieceSize:
		return fmt.Errorf("%d pieces for %d bytes", len(m.Pieces), m.Size)
	}
	return nil
}

// Describe makes the manifest of a bundle's bytes. Version, Number, Floor and Board are
// taken from of.
func Describe(bundle io.Reader, of Manifest) (Manifest, error) {
	whole := sha256.New()
	of.Size, of.Pieces = 0, nil
	for {
		piece := sha256.New()
		n, err := io.CopyN(io.MultiWriter(whole, piece), bundle, PieceSize)
		if of.Size += n; n > 0 {
			of.Pieces = append(of.Pieces, [32]byte(piece.Sum(nil)))
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return of, err
		}
		if err != nil || of.Size > MaxBundle {
			break
		}
	}
	of.SHA256 = hex.EncodeToString(whole.Sum(nil))
	return of, of.validate()
}

// Sign is the manifest as a signed note, which lies beside the bundle.
func Sign(m Manifest, by ...note.Signer) ([]byte, error) {
	if _, err := ParseManifest(m.Text()); err != nil {
		return nil, err
	}
	return note.Sign(&note.Note{Text: m.Text()}, by...)
}

// OpenManifest verifies a signed manifest. The errors include ErrManifest.
func OpenManifest(signed []byte, ring manifest.Keys) (m Manifest, by []string, err error) {
	if len(signed) > MaxManifest {
		return m, nil, fmt.Errorf("%w: it has more than %d bytes", ErrManifest, MaxManifest)
	}
	text, by, err := ring.Open(signed)
	if err == nil {
		m, err = ParseManifest(text)
	}
	if err != nil {
		return m, nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return m, by, nil
}

// Found is an update in a folder: its manifest is verified, its bundle is of the right size.
type Found struct {
	Manifest
	note   []byte
	bundle string // path
	noted  string // path of the manifest
}

// Look reads the updates in a folder: every manifest with its bundle beside it, the
// highest number first. What cannot be believed is told in errs and stops no other. A
// folder that is absent is empty.
func Look(dir string, ring manifest.Keys) (list []Found, errs []error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+ManifestSuffix))
	if err != nil {
		return nil, []error{err}
	}
	for _, path := range names[:min(len(names), maxInFolder)] {
		f, err := OpenFound(path, ring)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Base(path), err))
			continue
		}
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(a, b Found) int { return cmp.Compare(b.Number, a.Number) })
	return list, errs
}

// maxInFolder bounds how many updates of a folder are looked at.
const maxInFolder = 50

// OpenFound verifies the manifest at a path and finds its bundle.
func OpenFound(path string, ring manifest.Keys) (f Found, err error) {
	f.noted, f.bundle = path, strings.TrimSuffix(path, ManifestSuffix)+BundleSuffix
	if f.note, err = readBounded(path, MaxManifest); err != nil {
		return f, err
	}
	if f.Manifest, _, err = OpenManifest(f.note, ring); err != nil {
		return f, err
	}
	info, err := os.Stat(f.bundle)
	switch {
	case err != nil:
		return f, fmt.Errorf("its bundle: %w", err)
	case !info.Mode().IsRegular() || info.Size() != f.Size:
		return f, fmt.Errorf("its bundle %s has %d bytes, the signed manifest says %d: it did not come whole", filepath.Base(f.bundle), info.Size(), f.Size)
	}
	return f, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s: more than %d bytes: another kind of file", filepath.Base(path), limit)
	}
	return text, err
}
