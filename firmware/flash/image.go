package flash

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"grattoir/validate/manifest"
)

// Sizes of the format, in bytes. All but the limits are in FORMAT.md.
const (
	unit        = 1 << 20   // ranges begin at whole units; the first range is exactly one
	maxRange    = 4 << 20   // of data
	sector      = 4096      // images and ranges are whole sectors of this
	maxImage    = 256 << 30 // raw
	maxManifest = 16 << 10
	maxMap      = 16 << 20
	maxPacked   = maxRange + 64<<10 // a range of data that does not compress
)

// The ends of the names of an image's three files.
const (
	ImageSuffix    = ".img.zst"
	MapSuffix      = ".img.blockmap"
	ManifestSuffix = ".img.manifest"
)

// Release names an image, for people and for the boards that may run it.
type Release struct {
	Name    string    // 1 to 64 letters, digits, '.', '_' and '-', as grattoir-rpi
	Version string    // likewise, as 1.4.0
	Board   string    // the family of boards, as the update bundles name it
	Built   time.Time // the image's clock epoch, whole seconds
}

// Manifest is what is signed of an image. See FORMAT.md.
type Manifest struct {
	Release
	Size       int64    // of the raw image, in bytes, a multiple of 4096
	SHA256     [32]byte // of the raw image
	PackedSize int64    // of the compressed file, in bytes
	Packed     [32]byte // SHA-256 of the compressed file
	Map        [32]byte // SHA-256 of the block map's text
}

const manifestTitle = "grattoir image v1"

var wordForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Text is the canonical text that is signed.
func (m Manifest) Text() string {
	return fmt.Sprintf("%s\nname %s\nversion %s\nboard %s\nbuilt %s\nsize %d\nsha256 %x\npacked-size %d\npacked-sha256 %x\nmap-sha256 %x\n",
		manifestTitle, m.Name, m.Version, m.Board, m.Built.UTC().Format(time.RFC3339), m.Size, m.SHA256, m.PackedSize, m.Packed, m.Map)
}

// ID tells this image from every other: the first 32 hexadecimal digits of the SHA-256 of
// the manifest's text.
func (m Manifest) ID() string {
	sum := sha256.Sum256([]byte(m.Text()))
	return hex.EncodeToString(sum[:16])
}

var errFormat = errors.New("not in the format of FORMAT.md")

// ParseManifest reads what Text writes, and nothing else.
func ParseManifest(text string) (m Manifest, err error) {
	lines := strings.Split(text, "\n")
	if len(text) > maxManifest || len(lines) != 11 || lines[0] != manifestTitle {
		return m, fmt.Errorf("image manifest: %w: want the line %q and nine more", errFormat, manifestTitle)
	}
	value := func(line int) string {
		_, v, _ := strings.Cut(lines[line], " ")
		return v
	}
	m.Name, m.Version, m.Board = value(1), value(2), value(3)
	m.Built, _ = time.Parse(time.RFC3339, value(4)) // what does not parse does not come out as it went in
	m.Size, _ = strconv.ParseInt(value(5), 10, 64)
	m.PackedSize, _ = strconv.ParseInt(value(7), 10, 64)
	for line, sum := range map[int]*[32]byte{6: &m.SHA256, 8: &m.Packed, 9: &m.Map} {
		raw, _ := hex.DecodeString(value(line))
		copy(sum[:], raw)
	}
	if err := m.validate(); err != nil {
		return m, err
	}
	if m.Text() != text {
		return m, fmt.Errorf("image manifest: %w", errFormat)
	}
	return m, nil
}

func (m Manifest) validate() error {
	for _, w := range []string{m.Name, m.Version, m.Board} {
		if !wordForm.MatchString(w) {
			return fmt.Errorf("image manifest: %.80q: want a name of 1 to 64 letters, digits, '.', '_' and '-'", w)
		}
	}
	if m.Size < 2*unit || m.Size > maxImage || m.Size%sector != 0 {
		return fmt.Errorf("image manifest: a raw image of %d bytes: want %d to %d, a multiple of %d", m.Size, 2*unit, int64(maxImage), sector)
	}
	if m.PackedSize < 1 || m.PackedSize > maxImage {
		return fmt.Errorf("image manifest: a compressed image of %d bytes", m.PackedSize)
	}
	return nil
}

// Range is a part of the raw image. All numbers are in bytes.
type Range struct {
	Off, Len int64
	Hole     bool     // zero bytes only; the rest is unset
	SHA256   [32]byte // of the raw data
	At       int64    // where its frame begins in the compressed file
	Packed   int64    // and how long it is
}

// BlockMap cuts an image into ranges, without a gap and in order.
type BlockMap struct {
	Size   int64
	Ranges []Range
}

const mapTitle = "grattoir blockmap v1"

// Text is the block map as it is written, hashed and read.
func (b BlockMap) Text() string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s\nsize %d\n", mapTitle, b.Size)
	for _, r := range b.Ranges {
		if r.Hole {
			fmt.Fprintf(&t, "hole %d %d\n", r.Off, r.Len)
		} else {
			fmt.Fprintf(&t, "data %d %d %x %d %d\n", r.Off, r.Len, r.SHA256, r.At, r.Packed)
		}
	}
	return t.String()
}

// ParseBlockMap reads what Text writes, and nothing else.
func ParseBlockMap(text string) (b BlockMap, err error) {
	if len(text) > maxMap {
		return b, fmt.Errorf("block map: %d bytes, at most %d", len(text), maxMap)
	}
	scan := bufio.NewScanner(strings.NewReader(text))
	if !scan.Scan() || scan.Text() != mapTitle || !scan.Scan() {
		return b, fmt.Errorf("block map: %w: it does not begin with %q", errFormat, mapTitle)
	}
	if _, err := fmt.Sscanf(scan.Text(), "size %d", &b.Size); err != nil {
		return b, fmt.Errorf("block map: line 2: %w", errFormat)
	}
	for line := 3; scan.Scan(); line++ {
		r, err := parseRange(scan.Text())
		if err == nil {
			err = b.follows(r)
		}
		if err != nil {
			return b, fmt.Errorf("block map: line %d: %w", line, err)
		}
		b.Ranges = append(b.Ranges, r)
	}
	if n := len(b.Ranges); n == 0 || b.Ranges[n-1].Off+b.Ranges[n-1].Len != b.Size || b.Text() != text {
		return b, fmt.Errorf("block map: %w: it does not end where the image does, or was written another way", errFormat)
	}
	return b, nil
}

func parseRange(line string) (r Range, err error) {
	if strings.HasPrefix(line, "hole ") {
		r.Hole = true
		if _, err := fmt.Sscanf(line, "hole %d %d", &r.Off, &r.Len); err != nil {
			return r, errFormat
		}
		return r, nil
	}
	var sum []byte
	if _, err := fmt.Sscanf(line, "data %d %d %x %d %d", &r.Off, &r.Len, &sum, &r.At, &r.Packed); err != nil || len(sum) != len(r.SHA256) {
		return r, errFormat
	}
	copy(r.SHA256[:], sum)
	return r, nil
}

// follows tells whether a range may stand after those that are there.
func (b BlockMap) follows(r Range) error {
	var off, at int64
	var hole bool
	for i := len(b.Ranges) - 1; i >= 0 && at == 0; i-- {
		last := b.Ranges[i]
		if i == len(b.Ranges)-1 {
			off, hole = last.Off+last.Len, last.Hole
		}
		at = last.At + last.Packed // 0 for a hole, and holes do not stand side by side
	}
	switch {
	case r.Off != off || r.Off%unit != 0:
		return fmt.Errorf("%w: it begins at %d, the range before ends at %d", errFormat, r.Off, off)
	case r.Len < sector || r.Len%sector != 0 || r.Len > b.Size-r.Off || r.Len%unit != 0 && r.Off+r.Len != b.Size:
		return fmt.Errorf("%w: a range of %d bytes", errFormat, r.Len)
	case r.Off == 0 && (r.Hole || r.Len != unit):
		return fmt.Errorf("%w: the first range is %d bytes of data", errFormat, unit)
	case r.Hole && hole:
		return fmt.Errorf("%w: two holes side by side", errFormat)
	case !r.Hole && (r.Len > maxRange || r.At < at || r.At > maxImage || r.Packed < 1 || r.Packed > maxPacked):
		return fmt.Errorf("%w: data of %d bytes, packed at %d in %d", errFormat, r.Len, r.At, r.Packed)
	}
	return nil
}

// Image is an image whose manifest, block map and compressed file were verified. Close it.
type Image struct {
	Manifest
	SignedBy []string // the names of the keys whose signatures count

	blocks BlockMap
	file   *os.File
	decode *zstd.Decoder
}

// Open reads and verifies an image by the path of its compressed file, beside which its
// block map and its manifest lie: first the signature, then the map's hash, then that of
// the compressed file, which is read whole; read is told how many bytes of it at a time.
// The errors are Faults, F1 and F2 among them.
func Open(ctx context.Context, path string, ring manifest.Keys, read func(n, of int64)) (_ *Image, err error) {
	stem, ok := strings.CutSuffix(path, ImageSuffix)
	if !ok {
		return nil, fault(codeUntrusted, filepath.Base(path), "want a file whose name ends in %s, with its %s and %s beside it", ImageSuffix, MapSuffix, ManifestSuffix)
	}
	im := &Image{}
	if im.Manifest, im.SignedBy, err = openManifest(stem+ManifestSuffix, ring); err != nil {
		return nil, err
	}
	if im.blocks, err = im.openMap(stem + MapSuffix); err != nil {
		return nil, err
	}
	if im.file, err = os.Open(path); err != nil {
		return nil, &Fault{Code: codeDamaged, On: filepath.Base(path), Err: err}
	}
	if err := im.checkFile(ctx, read); err != nil {
		return nil, errors.Join(err, im.file.Close())
	}
	// One goroutine and bounded memory: a range is at most 4 MiB.
	im.decode, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRange))
	if err != nil {
		return nil, errors.Join(err, im.file.Close())
	}
	return im, nil
}

// Close lets the file go.
func (im *Image) Close() error {
	im.decode.Close()
	return im.file.Close()
}

func openManifest(path string, ring manifest.Keys) (Manifest, []string, error) {
	name := filepath.Base(path)
	signed, err := readBounded(path, maxManifest)
	if err != nil {
		return Manifest{}, nil, &Fault{Code: codeUntrusted, On: name, Err: err}
	}
	text, by, err := ring.Open(signed)
	if err != nil {
		return Manifest{}, nil, &Fault{Code: codeUntrusted, On: name, Err: err}
	}
	m, err := ParseManifest(text)
	if err != nil {
		return m, nil, &Fault{Code: codeUntrusted, On: name, Err: err}
	}
	return m, by, nil
}

func (m Manifest) openMap(path string) (b BlockMap, err error) {
	name := filepath.Base(path)
	text, err := readBounded(path, maxMap)
	if err != nil {
		return b, &Fault{Code: codeDamaged, On: name, Err: err}
	}
	if sha256.Sum256(text) != m.Map {
		return b, fault(codeDamaged, name, "its SHA-256 is not the one in the signed manifest")
	}
	if b, err = ParseBlockMap(string(text)); err != nil {
		return b, &Fault{Code: codeDamaged, On: name, Err: err}
	}
	last := b.Ranges[len(b.Ranges)-1]
	if b.Size != m.Size || last.At+last.Packed > m.PackedSize {
		return b, fault(codeDamaged, name, "it is the map of an image of %d bytes, the manifest is of one of %d", b.Size, m.Size)
	}
	return b, nil
}

// checkFile holds the compressed file against the manifest.
func (im *Image) checkFile(ctx context.Context, read func(n, of int64)) error {
	name := filepath.Base(im.file.Name())
	info, err := im.file.Stat()
	if err != nil {
		return &Fault{Code: codeDamaged, On: name, Err: err}
	}
	if !info.Mode().IsRegular() || info.Size() != im.PackedSize {
		return fault(codeDamaged, name, "it has %d bytes, the signed manifest says %d: it did not come whole", info.Size(), im.PackedSize)
	}
	hash, buffer := sha256.New(), make([]byte, unit)
	for from := io.LimitReader(im.file, im.PackedSize); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := from.Read(buffer)
		hash.Write(buffer[:n])
		if read != nil {
			read(int64(n), im.PackedSize)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return &Fault{Code: codeDamaged, On: name, Err: err}
		}
	}
	if [32]byte(hash.Sum(nil)) != im.Packed {
		return fault(codeDamaged, name, "its SHA-256 is not the one in the signed manifest")
	}
	return nil
}

// load reads a range of data into a buffer of at least its length and checks its hash. packed is scratch.
func (im *Image) load(r Range, packed, into []byte) ([]byte, error) {
	name := filepath.Base(im.file.Name())
	if _, err := im.file.ReadAt(packed[:r.Packed], r.At); err != nil {
		return nil, fault(codeDamaged, name, "range at %d: %w", r.Off, err)
	}
	out, err := im.decode.DecodeAll(packed[:r.Packed], into[:0])
	if err != nil || int64(len(out)) != r.Len || sha256.Sum256(out) != r.SHA256 {
		return nil, fault(codeDamaged, name, "the range at %d is not what the block map says (%w)", r.Off, errors.Join(err, errFormat))
	}
	copy(into, out) // the decoder may have taken a buffer of its own, which need not be aligned
	return into[:r.Len], nil
}

// readBounded reads a small file whole.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s: more than %d bytes: another kind of file", filepath.Base(path), limit)
	}
	return text, err
}

// zeros tells whether there is nothing but zero bytes in b.
func zeros(b []byte) bool { return len(b) == 0 || b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1]) }
