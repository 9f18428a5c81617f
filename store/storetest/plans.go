package storetest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Plans records the queries a test sends, to explain them as they were sent. It is a tracer for store.Config.
type Plans struct {
	mu   sync.Mutex
	sent map[string]pgx.TraceQueryStartData // the last of each name
}

// TraceQueryStart implements pgx.QueryTracer.
func (p *Plans) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	name, _, _ := strings.Cut(strings.TrimPrefix(d.SQL, "-- name: "), " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent == nil {
		p.sent = map[string]pgx.TraceQueryStartData{}
	}
	p.sent[name] = d
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*Plans) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Check fails the test unless the named query, as it was last sent, uses the indexes and reads no table whole. The
// planner decides by what is in the tables: fill and ANALYZE them before.
func (p *Plans) Check(t *testing.T, pool *pgxpool.Pool, query string, indexes ...string) {
	t.Helper()
	p.mu.Lock()
	d, ok := p.sent[query]
	p.mu.Unlock()
	if !ok {
		t.Fatalf("%s was not sent", query)
	}
	rows, err := pool.Query(t.Context(), "EXPLAIN "+d.SQL, d.Args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	plan := strings.Join(lines, "\n")
	for _, index := range indexes {
		if !strings.Contains(plan, index) {
			t.Errorf("%s: %s is not used", query, index)
		}
	}
	if strings.Contains(plan, "Seq Scan") || t.Failed() {
		t.Errorf("%s:\n%s", query, plan)
	}
}
