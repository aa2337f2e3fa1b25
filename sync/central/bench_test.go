package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"grattoir/sync/central/pgtest"
	"grattoir/sync/wire"
	"grattoir/validate/manifest"
)

const (
	ingestTerminals = 8
	ingestBatch     = 50 // claims of an upload
)

// BenchmarkIngest is uploads of 50 claims from 8 terminals at once, with everything
// proven and durable, on either store; beside each, in the same run, the bare insert of as
// many rows of the same bytes by the fastest way the database has. Run it with -benchtime 200x
// or more: an iteration is one upload.
func BenchmarkIngest(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { ingest(b, "") })
	b.Run("sqlite-bare", func(b *testing.B) { bareSQLite(b, filepath.Join(b.TempDir(), "bare.db")) })
	server, err := pgtest.Start() // one that syncs the disk
	if errors.Is(err, pgtest.ErrMissing) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			b.Error(err)
		}
	}()
	database := func(b *testing.B) string {
		url, err := server.Schema(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return url
	}
	b.Run("postgres", func(b *testing.B) { ingest(b, database(b)) })
	b.Run("postgres-bare", func(b *testing.B) { barePostgres(b, database(b)) })
}

// ingest makes b.N uploads, as many from each terminal, of tickets that are all credited.
func ingest(b *testing.B, database string) {
	packs := (b.N*ingestBatch/ingestTerminals/60 + 2) * ingestTerminals
	w := newWorldOf(b, database, int64(packs*60), []manifest.Tier{{Count: 2, Amount: 20000}, {Count: int64(packs*60 - 2), Amount: 2000}})
	share := uint32(packs / ingestTerminals)
	uploads := make([][]wire.Upload, ingestTerminals)
	var devices []*device
	for i := range uint32(ingestTerminals) {
		d := w.enrolled(b, fmt.Sprintf("T-%d", i))
		devices = append(devices, d)
		first := 10 + i*share
		w.give(b, d.name, first, first+share-1)
		won := w.winners(first, first+share-1)
		for k := range (b.N + ingestTerminals - 1 - int(i)) / ingestTerminals {
			d.pay(b, won[k*ingestBatch:(k+1)*ingestBatch]...)
			n := int64(len(d.lines))
			uploads[i] = append(uploads[i], d.upload(b, n-ingestBatch+1, n))
		}
	}
	b.ResetTimer()
	var group sync.WaitGroup
	for i, d := range devices {
		group.Go(func() {
			for _, u := range uploads[i] {
				if _, err := w.upload(context.Background(), caller{d.name, &d.key.PublicKey}, u); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N*ingestBatch)/b.Elapsed().Seconds(), "claims/s")
	if n := w.count(b, "SELECT count(*) FROM claims"); n != b.N*ingestBatch {
		b.Fatalf("%d claims credited of %d", n, b.N*ingestBatch)
	}
}

const bareLine = 600 // bytes of a claim's entry

func bareRows(n, from int) [][]any {
	line := []byte(strings.Repeat("x", bareLine))
	var list [][]any
	for i := range n {
		list = append(list, []any{fmt.Sprintf("T-%d", from%ingestTerminals), int64(from*n + i), line})
	}
	return list
}

// bareSQLite inserts batches with a prepared statement, a commit each.
func bareSQLite(b *testing.B, path string) {
	db := sql.OpenDB(connector{path: path})
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE bare(terminal TEXT, seq INTEGER, line BLOB, PRIMARY KEY(terminal, seq)) STRICT, WITHOUT ROWID"); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for i := range b.N {
		tx, err := db.Begin()
		if err != nil {
			b.Fatal(err)
		}
		for _, row := range bareRows(ingestBatch, i) {
			if _, err := tx.Exec("INSERT INTO bare VALUES($1, $2, $3)", row...); err != nil {
				b.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*ingestBatch)/b.Elapsed().Seconds(), "claims/s")
}

// barePostgres copies batches over as many connections as there are terminals.
func barePostgres(b *testing.B, database string) {
	ctx := b.Context()
	setup, err := pgx.Connect(ctx, database)
	if err == nil {
		_, err = setup.Exec(ctx, "CREATE TABLE bare(terminal TEXT, seq BIGINT, line BYTEA, PRIMARY KEY(terminal, seq))")
	}
	if err != nil {
		b.Fatal(err)
	}
	defer setup.Close(ctx)
	var next atomic.Int64
	var group sync.WaitGroup
	b.ResetTimer()
	for range ingestTerminals {
		group.Go(func() {
			conn, err := pgx.Connect(ctx, database)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close(ctx)
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if _, err := conn.CopyFrom(ctx, pgx.Identifier{"bare"}, []string{"terminal", "seq", "line"}, pgx.CopyFromRows(bareRows(ingestBatch, int(i)))); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N*ingestBatch)/b.Elapsed().Seconds(), "claims/s")
}
