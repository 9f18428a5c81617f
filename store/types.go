package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// registerTypes has what is read by the thousands go the shortest way. pgx would read an id by way of its text, since
// uuid.UUID is a sql.Scanner; allocate what may be null by reflection; and parse each document to see that it is one,
// which PostgreSQL has done.
func registerTypes(m *pgtype.Map) {
	pgxuuid.Register(m) // writes them
	m.RegisterType(&pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}})
	m.RegisterType(&pgtype.Type{Name: "text", OID: pgtype.TextOID, Codec: textCodec{}})
	raw := func(src []byte, dst any) error {
		if doc, ok := dst.(*json.RawMessage); ok {
			*doc = bytes.Clone(src)
			return nil
		}
		return json.Unmarshal(src, dst)
	}
	m.RegisterType(&pgtype.Type{Name: "json", OID: pgtype.JSONOID, Codec: &pgtype.JSONCodec{Marshal: json.Marshal, Unmarshal: raw}})
	m.RegisterType(&pgtype.Type{Name: "jsonb", OID: pgtype.JSONBOID, Codec: &pgtype.JSONBCodec{Marshal: json.Marshal, Unmarshal: raw}})
}

// scan is a pgtype.ScanPlan.
type scan func(src []byte, dst any) error

// Scan implements pgtype.ScanPlan.
func (s scan) Scan(src []byte, dst any) error { return s(src, dst) }

type uuidCodec struct{ pgxuuid.UUIDCodec }

// PlanScan implements pgtype.Codec.
func (c uuidCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if format == pgtype.BinaryFormatCode {
		switch target.(type) {
		case *uuid.UUID:
			return scan(scanID)
		case **uuid.UUID:
			return scan(scanNullID)
		}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

func scanID(src []byte, dst any) error {
	if len(src) != len(uuid.UUID{}) {
		return fmt.Errorf("an id of %d bytes", len(src)) // null among them
	}
	*dst.(*uuid.UUID) = uuid.UUID(src)
	return nil
}

func scanNullID(src []byte, dst any) error {
	if src == nil {
		*dst.(**uuid.UUID) = nil
		return nil
	}
	id := new(uuid.UUID)
	*dst.(**uuid.UUID) = id
	return scanID(src, id)
}

type textCodec struct{ pgtype.TextCodec }

// PlanScan implements pgtype.Codec.
func (c textCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(**string); ok {
		return scan(scanNullText) // the same in both formats
	}
	return c.TextCodec.PlanScan(m, oid, format, target)
}

func scanNullText(src []byte, dst any) error {
	if src == nil {
		*dst.(**string) = nil
		return nil
	}
	text := string(src)
	*dst.(**string) = &text
	return nil
}
