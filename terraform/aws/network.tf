# Who may talk to whom: the world to the load balancer, that to gateways, both roles to ElastiCache and out.

resource "aws_security_group" "load_balancer" {
  name_prefix = "${var.name}-lb-"
  description = "The load balancer of ${var.name}"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-lb" })

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_security_group" "gateway" {
  name_prefix = "${var.name}-gateway-"
  description = "Gateways of ${var.name}"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-gateway" })

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_security_group" "dispatcher" {
  name_prefix = "${var.name}-dispatcher-"
  description = "Dispatchers of ${var.name}"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-dispatcher" })

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_security_group" "redis" {
  name_prefix = "${var.name}-redis-"
  description = "ElastiCache of ${var.name}"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-redis" })

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "load_balancer" {
  for_each = {
    for pair in setproduct(var.ingress_cidr_blocks, [80, 443]) : "${pair[0]}-${pair[1]}" => { block = pair[0], port = pair[1] }
  }

  description       = each.value.port == 443 ? "HTTPS" : "HTTP, to be redirected"
  security_group_id = aws_security_group.load_balancer.id
  cidr_ipv4         = each.value.block
  ip_protocol       = "tcp"
  from_port         = each.value.port
  to_port           = each.value.port
}

resource "aws_vpc_security_group_egress_rule" "load_balancer" {
  description                  = "Gateways"
  security_group_id            = aws_security_group.load_balancer.id
  referenced_security_group_id = aws_security_group.gateway.id
  ip_protocol                  = "tcp"
  from_port                    = local.gateway_port
  to_port                      = local.gateway_port
}

resource "aws_vpc_security_group_ingress_rule" "gateway" {
  description                  = "The load balancer"
  security_group_id            = aws_security_group.gateway.id
  referenced_security_group_id = aws_security_group.load_balancer.id
  ip_protocol                  = "tcp"
  from_port                    = local.gateway_port
  to_port                      = local.gateway_port
}

resource "aws_vpc_security_group_egress_rule" "gateway_to_redis" {
  description                  = "ElastiCache"
  security_group_id            = aws_security_group.gateway.id
  referenced_security_group_id = aws_security_group.redis.id
  ip_protocol                  = "tcp"
  from_port                    = local.redis_port
  to_port                      = local.redis_port
}

resource "aws_vpc_security_group_egress_rule" "gateway_to_aws" {
  description       = "Images, secrets and logs of AWS"
  security_group_id = aws_security_group.gateway.id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_egress_rule" "dispatcher_out" {
  description       = "What targets call: the gateway's own guard refuses addresses that are not public"
  security_group_id = aws_security_group.dispatcher.id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"
}

resource "aws_vpc_security_group_ingress_rule" "redis" {
  for_each = {
    gateway    = aws_security_group.gateway.id
    dispatcher = aws_security_group.dispatcher.id
  }

  description                  = "The ${each.key}s"
  security_group_id            = aws_security_group.redis.id
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = local.redis_port
  to_port                      = local.redis_port
}
