"""The service on real PostgreSQL: a temporary cluster on a free port."""
