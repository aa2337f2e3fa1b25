package flash

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/note"
)

// Build compresses a raw image, read once from front to end, and returns the manifest and
// the block map of it. Same bytes in, same bytes out, whichever machine and however the
// raw file is laid on its disk; another release of the compressor may write others. The
// raw image must be a multiple of 4096 bytes, of at least 2 MiB.
func Build(ctx context.Context, raw io.Reader, packed io.Writer, release Release) (Manifest, BlockMap, error) {
	b := builder{out: packed, hash: sha256.New()}
	var err error
	if b.pack, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(maxRange)); err != nil {
		return Manifest{}, BlockMap{}, err
	}
	defer b.pack.Close()
	whole, buffer := sha256.New(), make([]byte, maxRange)
	for last := false; !last; {
		if err := ctx.Err(); err != nil {
			return Manifest{}, BlockMap{}, err
		}
		n, err := io.ReadFull(raw, buffer)
		if last = err == io.EOF || err == io.ErrUnexpectedEOF; err != nil && !last {
			return Manifest{}, BlockMap{}, fmt.Errorf("raw image at %d: %w", b.blocks.Size, err)
		}
		whole.Write(buffer[:n])
		if err := b.cell(buffer[:n]); err != nil {
			return Manifest{}, BlockMap{}, fmt.Errorf("image at %d: %w", b.blocks.Size, err)
		}
	}
	release.Built = release.Built.UTC()
	m := Manifest{Release: release, Size: b.blocks.Size, SHA256: [32]byte(whole.Sum(nil)), PackedSize: b.at, Packed: [32]byte(b.hash.Sum(nil)),
		Map: sha256.Sum256([]byte(b.blocks.Text()))}
	if _, err := ParseManifest(m.Text()); err != nil {
		return m, b.blocks, err
	}
	_, err = ParseBlockMap(b.blocks.Text())
	return m, b.blocks, err
}

// builder packs one aligned cell of up to 4 MiB after the other.
type builder struct {
	out    io.Writer
	pack   *zstd.Encoder
	hash   hash.Hash
	at     int64
	blocks BlockMap
	frame  []byte
}

// cell cuts a cell at whole units into runs of zeros and of data. The first unit of the
// image is a range of its own, which is written last.
func (b *builder) cell(raw []byte) error {
	for len(raw) > 0 {
		end := min(unit, len(raw))
		hole := zeros(raw[:end])
		for first := b.blocks.Size == 0; !first && end < len(raw) && zeros(raw[end:min(end+unit, len(raw))]) == hole; {
			end = min(end+unit, len(raw))
		}
		if b.blocks.Size == 0 {
			hole = false
		}
		if err := b.add(raw[:end], hole); err != nil {
			return err
		}
		raw = raw[end:]
	}
	return nil
}

// add packs a range into a frame of its own, holes too: any zstd makes the raw image again.
func (b *builder) add(raw []byte, hole bool) error {
	b.frame = b.pack.EncodeAll(raw, b.frame[:0])
	if _, err := b.out.Write(b.frame); err != nil {
		return err
	}
	b.hash.Write(b.frame)
	r := Range{Off: b.blocks.Size, Len: int64(len(raw)), Hole: hole}
	last := len(b.blocks.Ranges) - 1
	switch {
	case !hole:
		r.SHA256, r.At, r.Packed = sha256.Sum256(raw), b.at, int64(len(b.frame))
		b.blocks.Ranges = append(b.blocks.Ranges, r)
	case b.blocks.Ranges[last].Hole:
		b.blocks.Ranges[last].Len += r.Len
	default:
		b.blocks.Ranges = append(b.blocks.Ranges, r)
	}
	b.at += int64(len(b.frame))
	b.blocks.Size += r.Len
	return nil
}

// Sign is the manifest as a signed note, which lies beside the image.
func Sign(m Manifest, by ...note.Signer) ([]byte, error) {
	if _, err := ParseManifest(m.Text()); err != nil {
		return nil, err
	}
	return note.Sign(&note.Note{Text: m.Text()}, by...)
}

// Pack writes the three files of an image into a folder, as NAME-VERSION.img.zst and its
// neighbours, and returns the path of the compressed one. The manifest comes last: an
// image without one is not whole. What lies there of the same name is replaced.
func Pack(ctx context.Context, raw io.Reader, folder string, release Release, by ...note.Signer) (path string, m Manifest, err error) {
	stem := filepath.Join(folder, release.Name+"-"+release.Version)
	if !wordForm.MatchString(release.Name) || !wordForm.MatchString(release.Version) {
		return "", m, fmt.Errorf("image %.80q %.80q: want names of 1 to 64 letters, digits, '.', '_' and '-'", release.Name, release.Version)
	}
	if err := os.Remove(stem + ManifestSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", m, err
	}
	var blocks BlockMap
	err = writeFile(stem+ImageSuffix, func(w io.Writer) (err error) {
		m, blocks, err = Build(ctx, raw, w, release)
		return err
	})
	if err != nil {
		return "", m, err
	}
	signed, err := Sign(m, by...)
	if err != nil {
		return "", m, err
	}
	whole := func(text []byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(text); return err }
	}
	if err := writeFile(stem+MapSuffix, whole([]byte(blocks.Text()))); err != nil {
		return "", m, err
	}
	if err := writeFile(stem+ManifestSuffix, whole(signed)); err != nil {
		return "", m, err
	}
	return stem + ImageSuffix, m, nil
}

// writeFile writes a file whole and durable, or none.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, unit)
	if err := errors.Join(write(w), w.Flush(), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return os.Rename(f.Name(), path)
}
